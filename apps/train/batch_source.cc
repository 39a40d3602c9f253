#include "apps/train/batch_source.h"

#include <bit>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "neap/core/base/file.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/graph/source.h"
#include "neap/core/vision/batch_feeds.h"

namespace neap::apps {
namespace {

static_assert(std::endian::native == std::endian::little, "files are read without byte swapping");

template <typename T>
absl::Status ReadArray(const ReadableFile& file, int64_t offset, std::vector<T>& values) {
  return file.ReadAt(offset, absl::MakeSpan(reinterpret_cast<std::byte*>(values.data()),
                                            values.size() * sizeof(T)));
}

}  // namespace

absl::StatusOr<NetInput> InputOf(const Program& program) {
  ASSIGN_OR_RETURN(const ImagePorts ports, ImagePortsOf(program));
  const Shape images = program.SpecOf(*ports.images).shape;
  const Shape predictions = program.SpecOf(ports.loss->predictions).shape;
  ImageShape image = {.c = images.c(), .h = images.h(), .w = images.w(), .d = images.d()};
  if (ports.reads_tokens) image = {.w = ports.values};
  return NetInput{.batch = program.net.batch,
                  .image = image,
                  .labels = LabelShape(predictions).elements() / images.n(),
                  .classes = ports.loss->classes,
                  .reads_tokens = ports.reads_tokens};
}

NetInput NetInput::Scaled(int64_t size) const {
  NetInput scaled = *this;
  scaled.image.h = size;
  scaled.image.w = size;
  if (labels > 1) scaled.labels = size * size;
  return scaled;
}

namespace {

// "images of 3x32x32 with 1 label each", "windows of 256 tokens with 256 labels each"
std::string FormText(bool is_tokens, const ImageShape& shape, int64_t labels) {
  const std::string examples = is_tokens ? absl::StrCat("windows of ", shape.w, " tokens")
                                         : absl::StrCat("images of ", ToString(shape));
  return absl::StrCat(examples, " with ", labels, labels == 1 ? " label each" : " labels each");
}

absl::Status CheckForm(const std::string& data, const Dataset& dataset, const NetInput& input) {
  if ((dataset.tokens() > 0) == input.reads_tokens && dataset.shape() == input.image &&
      dataset.labels() == input.labels) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      data, " has ", FormText(dataset.tokens() > 0, dataset.shape(), dataset.labels()),
      "; the network takes ", FormText(input.reads_tokens, input.image, input.labels)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> OpenSplit(const std::string& data, const NetInput& input,
                                                   Split split, const ReadingFlags& reading,
                                                   BadFiles* bad_files) {
  DatasetOptions options = {.split = split,
                            .shape = input.image,
                            .allow_empty_classes = reading.allow_empty,
                            .apply_orientation = reading.exif_orientation,
                            .label_pixels = input.labels > 1,
                            .classes = input.classes};
  if (bad_files != nullptr) {
    options.on_bad_file = [bad_files](const absl::Status& error) { bad_files->Add(error); };
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Dataset> dataset, OpenDataset(data, options));
  RETURN_IF_ERROR(CheckForm(data, *dataset, input));
  if (dataset->classes() <= input.classes) return dataset;
  return absl::InvalidArgumentError(absl::StrCat(
      data, " has ", dataset->classes(), " classes but the network's output has ", input.classes,
      input.is_fixed ? ", as its file says; export it with as many outputs as there are classes"
                     : absl::StrCat("; use --classes ", dataset->classes())));
}

absl::StatusOr<MatchedClasses> MatchSplit(const std::string& data, std::unique_ptr<Dataset> dataset,
                                          const std::vector<std::string>& classes) {
  absl::StatusOr<MatchedClasses> matched = MatchClasses(std::move(dataset), classes);
  if (matched.ok()) return matched;
  return absl::Status(matched.status().code(),
                      absl::StrCat(data, ": ", matched.status().message()));
}

std::vector<std::string> AbsentNotes(const std::string& data, const MatchedClasses& matched) {
  if (matched.absent.empty()) return {};
  return {absl::StrCat(data, " has no images of ", matched.absent.size(), " of ",
                       matched.dataset->classes(),
                       " classes: ", absl::StrJoin(matched.absent, ", "))};
}

absl::StatusOr<const Batch*> LoadedBatches::Next() {
  ASSIGN_OR_RETURN(batch_, loader_->Next(std::move(batch_)));
  return &batch_;
}

absl::StatusOr<Batch> ReadBatchFile(const std::string& path, int64_t size, const ImageShape& shape,
                                    int64_t labels, int64_t classes) {
  ASSIGN_OR_RETURN(const ReadableFile file, ReadableFile::Open(path));
  const int64_t image_bytes = 4 * size * shape.elements();
  const int64_t label_bytes = 4 * size * labels;
  if (file.size_bytes() != image_bytes + label_bytes) {
    return file.Corrupt(file.size_bytes(), absl::StrCat("the file ends here; ", size, " images of ",
                                                        ToString(shape), " and their labels take ",
                                                        image_bytes + label_bytes, " bytes"));
  }
  Batch batch = {.images = std::vector<float>(static_cast<size_t>(size * shape.elements())),
                 .labels = std::vector<int32_t>(static_cast<size_t>(size * labels)),
                 .size = size};
  RETURN_IF_ERROR(ReadArray(file, 0, batch.images));
  RETURN_IF_ERROR(ReadArray(file, image_bytes, batch.labels));
  for (size_t i = 0; i < batch.labels.size(); ++i) {
    if (batch.labels[i] >= 0 && batch.labels[i] < classes) continue;
    return file.Corrupt(image_bytes + 4 * static_cast<int64_t>(i),
                        absl::StrCat("label ", batch.labels[i], " of ", classes, " classes"));
  }
  return batch;
}

}  // namespace neap::apps

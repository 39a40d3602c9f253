#include "neap/core/vision/batch_feeds.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/graph/source.h"

namespace neap {
namespace {

// Whether the batch has what the loss of `images` images needs: labels, or for a network that reads
// targets, either of them.
bool FitLabels(const Batch& batch, const ImagePorts& ports, int64_t images) {
  const int64_t labels = std::ssize(batch.labels), targets = std::ssize(batch.targets);
  if (targets == 0) return labels == images * ports.labels;
  return labels == 0 && targets == images * ports.targets;
}

// "12 labels", "120 targets"
std::string AmountOfLabels(const Batch& batch) {
  if (batch.targets.empty()) return absl::StrCat(batch.labels.size(), " labels");
  const std::string targets = absl::StrCat(batch.targets.size(), " targets");
  return batch.labels.empty() ? targets : absl::StrCat(batch.labels.size(), " labels, ", targets);
}

absl::Status CheckWhole(const Batch& batch, const Program& program, const ImagePorts& ports) {
  const TensorSpec images = program.SpecOf(*ports.images), labels = program.SpecOf(*ports.target);
  const int64_t values = InputsIn(batch);
  const bool fits = values == images.elements() && FitLabels(batch, ports, program.net.batch) &&
                    (batch.size == 0 || batch.size == program.net.batch);
  if (fits) return absl::OkStatus();
  const std::string size = batch.size == 0 ? "" : absl::StrCat(batch.size, " images, ");
  return absl::InvalidArgumentError(
      absl::StrCat("the batch has ", size, AmountOfLabels(batch), " and ", values,
                   ports.reads_tokens ? " tokens" : " image values", "; the network's input is ",
                   images.shape.ToString(), ", its ", ports.reads_targets ? "targets " : "labels ",
                   labels.shape.ToString()));
}

absl::Status CheckPartial(const Batch& batch, const Program& program, const ImagePorts& ports) {
  const int64_t values = InputsIn(batch), count = values / ports.values;
  const bool fits = 1 <= count && count <= program.net.batch && values == count * ports.values &&
                    FitLabels(batch, ports, count) && (batch.size == 0 || batch.size == count);
  if (fits && batch.on_device && count < program.net.batch) {
    return absl::InvalidArgumentError(
        absl::StrCat("images in the device's memory must be as many as the network's batch, ",
                     program.net.batch));
  }
  if (fits) return absl::OkStatus();
  const std::string size = batch.size == 0 ? "" : absl::StrCat(batch.size, " images, ");
  return absl::InvalidArgumentError(absl::StrCat(
      "the batch has ", size, values, " image values and ", AmountOfLabels(batch),
      "; the network takes 1 to ", program.net.batch, " images of ", ports.values, " values with ",
      ports.labels, ports.labels == 1 ? " label" : " labels",
      ports.targets == 0 ? "" : absl::StrCat(" or ", ports.targets, " targets"), " each"));
}

absl::Status CheckKind(const Batch& batch, const ImagePorts& ports) {
  const bool has_images = !ImagesOf(batch).empty();
  if (ports.reads_tokens && has_images) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the network reads integers as '", ports.images->name, "'; the batch has images, floats"));
  }
  if (ports.reads_tokens || batch.tokens.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the network reads floats as '", ports.images->name, "'; the batch has tokens, integers"));
}

absl::Status CheckBorrowed(const Batch& batch) {
  if (!batch.on_device || !batch.borrowed.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError("the batch is on the device, but has no borrowed images there");
}

absl::Status CheckTargetsOf(const Batch& batch, const Program& program, const ImagePorts& ports) {
  const Shape predictions = program.SpecOf(ports.loss->predictions).shape;
  const bool has_labels = std::any_of(batch.labels.begin(), batch.labels.end(),
                                      [](int32_t label) { return label != kNoLabel; });
  if (ports.reads_targets && predictions.c() == 1 && has_labels) {
    return absl::InvalidArgumentError(
        "labels cannot stand for the targets of one channel; give targets (floats)");
  }
  if (!ports.reads_targets) return absl::OkStatus();  // labels are checked as other feeds are
  return CheckLabels(batch.labels, LabelShape(predictions), predictions.c());
}

// The targets that stand for labels, in N, C, H, W order, for predictions of this shape.
std::vector<float> TargetsOf(const std::vector<int32_t>& labels, const Shape& predictions) {
  const int64_t classes = predictions.c(), pixels = predictions.positions();
  std::vector<float> targets(labels.size() * static_cast<size_t>(classes));
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto label = static_cast<int64_t>(i);
    const int64_t first = label / pixels * classes * pixels + label % pixels;
    for (int64_t c = 0; c < classes; ++c) {
      const float target = labels[i] == c ? 1.0F : 0.0F;
      targets[static_cast<size_t>(first + c * pixels)] = labels[i] == kNoLabel ? kNoTarget : target;
    }
  }
  return targets;
}

absl::Status TakesMore(const Program& program) {
  std::string text = absl::StrCat(program.net.name, " takes other feeds than images and labels:");
  for (const Port& feed : program.feeds) {
    absl::StrAppend(&text, &feed == &program.feeds.front() ? " " : ", ", feed.name, " (",
                    program.SpecOf(feed).ToString(), ")");
  }
  return absl::InvalidArgumentError(absl::StrCat(text, "; give them by name"));
}

}  // namespace

absl::StatusOr<ImagePorts> ImagePortsOf(const Program& program) {
  ImagePorts ports = {.loss = program.MainLoss()};
  int inputs = 0;
  for (const Port& feed : program.feeds) {
    inputs += program.IsTarget(feed) ? 0 : 1;
    if (!program.IsTarget(feed)) ports.images = &feed;
    if (ports.loss != nullptr && feed.name == ports.loss->target) ports.target = &feed;
  }
  const bool fits = inputs == 1 && program.feeds.size() == 2 && ports.target != nullptr;
  if (!fits) return TakesMore(program);
  ports.reads_tokens = program.SpecOf(*ports.images).dtype == DType::kInt32;
  const TensorSpec images = program.SpecOf(*ports.images), target = program.SpecOf(*ports.target);
  ports.values = images.elements() / program.net.batch;
  ports.labels = target.elements() / program.net.batch;
  ports.reads_targets = target.dtype == DType::kFp32;
  if (ports.reads_targets) {
    ports.targets = ports.labels;
    ports.labels = LabelShape(target.shape).elements() / program.net.batch;
  }
  return ports;
}

std::vector<int64_t> StatedShape(const Batch& batch, const Program& program,
                                 const ImagePorts& ports) {
  if (batch.height == 0 && batch.width == 0) return {};
  const int64_t channels = program.SpecOf(*ports.images).shape.c();
  const int64_t of_image = std::max<int64_t>(channels * batch.height * batch.width, 1);
  return {std::ssize(ImagesOf(batch)) / of_image, channels, batch.height, batch.width};
}

absl::StatusOr<BatchFeeds> BatchFeeds::Of(const Batch& batch, const Program& program) {
  ASSIGN_OR_RETURN(const ImagePorts ports, ImagePortsOf(program));
  RETURN_IF_ERROR(CheckKind(batch, ports));
  RETURN_IF_ERROR(CheckBorrowed(batch));
  const bool trains = program.options.mode == Mode::kTraining;
  RETURN_IF_ERROR(trains ? CheckWhole(batch, program, ports) : CheckPartial(batch, program, ports));
  RETURN_IF_ERROR(CheckTargetsOf(batch, program, ports));
  BatchFeeds given;
  given.feeds_ = {{.name = ports.images->name,
                   .floats = ImagesOf(batch),
                   .integers = batch.tokens,
                   .on_device = batch.on_device,
                   .shape = StatedShape(batch, program, ports)},
                  {.name = ports.target->name, .floats = batch.targets, .integers = batch.labels}};
  if (ports.reads_targets && batch.targets.empty()) {
    given.targets_ = TargetsOf(batch.labels, program.SpecOf(ports.loss->predictions).shape);
    given.feeds_[1].floats = given.targets_;
    given.feeds_[1].integers = {};
  }
  return given;
}

absl::StatusOr<BatchFeeds> BatchFeeds::OfImages(absl::Span<const float> images,
                                                const Program& program) {
  ASSIGN_OR_RETURN(const ImagePorts ports, ImagePortsOf(program));
  const int64_t count = std::ssize(images) / ports.values;
  const Batch batch = {
      .images = {},
      .labels = std::vector<int32_t>(static_cast<size_t>(count * ports.labels), kNoLabel),
      .borrowed = images};
  ASSIGN_OR_RETURN(BatchFeeds given, Of(batch, program));
  given.feeds_.resize(1);  // without the labels, which it would refer to
  return given;
}

}  // namespace neap

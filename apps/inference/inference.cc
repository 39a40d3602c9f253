#include "apps/inference/inference.h"

#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "apps/cli/device_flag.h"
#include "apps/cli/outcome.h"
#include "apps/cli/saved_model.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/program/passes.h"
#include "neap/core/vision/image_folder.h"
#include "neap/memory/create_session.h"

namespace neap::apps {

void InferenceFlags::AddTo(FlagSet& flags) {
  net.AddSizesTo(flags);
  flags.Add("weights", "FILE",
            "the trained weights: a checkpoint, or weights alone (safetensors); needed unless NET "
            "is a file, which has weights",
            Text(&weights));
  flags.Add("data", "SPEC", kDatasetHelp, DatasetFlag(&data));
  flags.Add("split", "NAME", "which part of the data", OneOf({"test", "train", "val"}, &split));
  reading.AddTo(flags, "an imagefolder", "at the end");
  flags.Add("device", "DEVICE", "cpu or cuda:N (cuda:0 if there is one, else cpu)", Text(&device));
  flags.Add("json", "print JSON", &json);
}

namespace {

absl::StatusOr<std::unique_ptr<Dataset>> OpenImages(const InferenceFlags& flags,
                                                    const NetInput& input, BadFiles* bad_files) {
  ASSIGN_OR_RETURN(const Split split, ParseSplit(flags.split));
  if (flags.images.empty()) return OpenSplit(flags.data, input, split, flags.reading, bad_files);
  ImageFolderOptions options = {.shape = input.image,
                                .apply_orientation = flags.reading.exif_orientation};
  if (bad_files != nullptr) {
    options.on_bad_file = [bad_files](const absl::Status& error) { bad_files->Add(error); };
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Dataset> dataset, ImageFolder::OpenFiles(flags.images, options));
  return dataset;
}

absl::Status LoadWeights(InferenceFlags& flags, Session& session) {
  if (!flags.weights.empty()) return session.Load(flags.weights);
  ASSIGN_OR_RETURN(const std::optional<NamedValues> weights, flags.net.Weights());
  flags.weights = flags.net.name;
  return session.LoadWeights(*weights);
}

}  // namespace

absl::StatusOr<Inference> OpenInference(InferenceFlags& flags, const FlagSet& given) {
  ASSIGN_OR_RETURN(SavedModel saved, CompleteFromFile(flags.weights, given, flags.net));
  if (flags.weights.empty() && flags.net.File().path.empty()) return flags.net.WeightsMissing();
  const bool decodes = !flags.images.empty() || absl::StartsWith(flags.data, kImageFolderPrefix);
  RETURN_IF_ERROR(flags.reading.Check(decodes, "--data imagefolder:DIR"));
  flags.net.options.other_normalizations = !absl::StartsWith(flags.data, kVolumesPrefix);
  RETURN_IF_ERROR(flags.net.TakePlannedBatch(given));
  ASSIGN_OR_RETURN(const Graph graph, flags.net.Build());
  ASSIGN_OR_RETURN(std::unique_ptr<Device> device, OpenDevice(flags.device));
  ASSIGN_OR_RETURN(const Program program,
                   Lower(graph, {.mode = Mode::kInference}, device->description()));
  ASSIGN_OR_RETURN(NetInput input, InputOf(program));
  input.is_fixed = !flags.net.File().path.empty();
  auto bad_files = flags.reading.skip_bad ? std::make_unique<BadFiles>() : nullptr;
  ASSIGN_OR_RETURN(std::unique_ptr<Dataset> dataset, OpenImages(flags, input, bad_files.get()));
  for (std::string& notice : dataset->notices()) saved.notes.push_back(std::move(notice));
  ASSIGN_OR_RETURN(Session session, CreateSession(graph, *device, {}, {.inference_only = true}));
  RETURN_IF_ERROR(LoadWeights(flags, session));
  return Inference{std::move(device),  std::move(bad_files),     std::move(dataset),    input,
                   std::move(session), std::move(saved.classes), std::move(saved.notes)};
}

absl::StatusOr<std::vector<std::string>> Inference::Skipped() const {
  if (bad_files == nullptr) return std::vector<std::string>();
  return bad_files->TakeNew(/*communicator=*/nullptr);
}

}  // namespace neap::apps

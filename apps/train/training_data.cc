#include "apps/train/training_data.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "apps/cli/saved_model.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/vision/image_folder.h"
#include "neap/nets/registry.h"

namespace neap::apps {
namespace {

constexpr const char* kSynthetic = "synthetic";
constexpr const char* kTokensPrefix = "tokens";  // of tokens: and tokens32:

std::string TextOf(const TrainFlags& flags, const Dataset* dataset) {
  if (dataset == nullptr) {
    return absl::StrCat(flags.batches.batch_file, ", one batch of ", *flags.net.options.batch,
                        " images");
  }
  if (dataset->tokens() > 0) {
    return absl::StrCat(flags.batches.data, ", ", dataset->size(), " windows of ",
                        dataset->tokens(), " tokens, ", dataset->classes(), " classes");
  }
  return absl::StrCat(flags.batches.data, ", ", dataset->size(), " images of ",
                      ToString(dataset->shape()), ", ", dataset->classes(), " classes");
}

std::vector<std::string> NotesOn(const TrainFlags& flags, const Dataset& dataset) {
  std::vector<std::string> notes;
  if (flags.batches.data == kSynthetic) {
    notes.emplace_back(
        dataset.tokens() > 0
            ? "synthetic tokens follow a rule that most of them obey; --data trains on a text"
            : "synthetic images are noise around a pattern for each class; --data trains on real "
              "ones");
  }
  const int64_t batch = *flags.net.options.batch;
  if (dataset.size() >= batch || flags.batches.repeat) return notes;
  notes.push_back(absl::StrCat("a step takes ", batch, " images, more than the ", dataset.size(),
                               " of an epoch; --batch ", dataset.size(),
                               " makes each epoch a step"));
  return notes;
}

// Weights alone may be trained for other classes.
bool AreForOtherClasses(const TrainingStart& start, const Dataset& dataset) {
  const std::vector<std::string> found = dataset.class_names();
  return !start.resumes && !start.classes.empty() &&
         !std::all_of(found.begin(), found.end(), [&](const std::string& name) {
           return std::count(start.classes.begin(), start.classes.end(), name) > 0;
         });
}

// The images of `dataset`, the same classes, in each of --sizes. Errors: INVALID_ARGUMENT for
// volumes.
absl::StatusOr<std::vector<std::unique_ptr<Dataset>>> OpenSizes(const TrainFlags& flags,
                                                                const NetInput& input,
                                                                const Dataset& dataset,
                                                                BadFiles* bad_files) {
  std::vector<std::unique_ptr<Dataset>> sized;
  if (!flags.batches.sizes.empty() && input.image.d > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--sizes are heights and widths of images; the network takes volumes of ",
                     ToString(input.image)));
  }
  for (const int64_t size : flags.batches.sizes) {
    const NetInput scaled = input.Scaled(size);
    ASSIGN_OR_RETURN(
        std::unique_ptr<Dataset> images,
        OpenSplit(flags.batches.data, scaled, Split::kTrain, flags.batches.reading, bad_files));
    ASSIGN_OR_RETURN(MatchedClasses matched,
                     MatchSplit(flags.batches.data, std::move(images), dataset.class_names()));
    sized.push_back(std::move(matched.dataset));
  }
  return sized;
}

absl::Status MatchClassesOfStart(const std::string& name, const TrainingStart& start,
                                 TrainingData& data) {
  if (AreForOtherClasses(start, *data.dataset)) {
    data.notes.push_back(absl::StrCat(start.file, " has other classes than ", name,
                                      ", whose order of names counts"));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(MatchedClasses matched,
                   MatchSplit(name, std::move(data.dataset), start.classes));
  for (std::string& note : AbsentNotes(name, matched)) data.notes.push_back(std::move(note));
  data.dataset = std::move(matched.dataset);
  return absl::OkStatus();
}

absl::StatusOr<int64_t> ClassesOf(const std::string& data) {
  if (absl::StartsWith(data, kImageFolderPrefix)) {
    ASSIGN_OR_RETURN(const std::vector<std::string> names,
                     ImageClassesOf(data.substr(std::string(kImageFolderPrefix).size())));
    return std::ssize(names);
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<Dataset> dataset, OpenDataset(data, {}));
  return dataset->classes();
}

}  // namespace

absl::Status TakeClasses(TrainFlags& flags) {
  std::optional<int64_t>& classes = flags.net.options.classes;
  if (classes.has_value() || !flags.net.File().path.empty() || !flags.plan_file.empty())
    return absl::OkStatus();
  const FileFlags& files = flags.files;
  const std::string& start = files.resume.empty() ? files.weights_in : files.resume;
  if (!start.empty()) {
    ASSIGN_OR_RETURN(classes, SavedClasses(start, flags.net.name));
    return absl::OkStatus();
  }
  // A plan has the classes of dataset.json, of which no training data need have all.
  if (nets::IsPlansName(flags.net.name) && NetFlags(flags.net).Build().ok())
    return absl::OkStatus();
  // A text has some tokens of a vocabulary, which is that of the network.
  if (flags.batches.data == kSynthetic || !flags.batches.batch_file.empty() ||
      absl::StartsWith(flags.batches.data, kTokensPrefix)) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(classes, ClassesOf(flags.batches.data));
  return absl::OkStatus();
}

absl::StatusOr<TrainingData> TrainingData::Open(const TrainFlags& flags, const NetInput& input,
                                                const TrainingStart& start, BadFiles* bad_files) {
  const std::string& name = flags.batches.data;
  TrainingData data;
  if (flags.batches.batch_file.empty()) {
    ASSIGN_OR_RETURN(data.dataset,
                     OpenSplit(name, input, Split::kTrain, flags.batches.reading, bad_files));
    data.notes = data.dataset->notices();
    RETURN_IF_ERROR(MatchClassesOfStart(name, start, data));
    for (std::string& note : NotesOn(flags, *data.dataset)) data.notes.push_back(std::move(note));
    ASSIGN_OR_RETURN(data.sized, OpenSizes(flags, input, *data.dataset, bad_files));
    data.class_names = data.dataset->class_names();
  }
  if (data.class_names.empty()) data.class_names = start.classes;
  data.text = TextOf(flags, data.dataset.get());
  if (!flags.evaluate) return data;
  ASSIGN_OR_RETURN(std::unique_ptr<Dataset> test,
                   OpenSplit(name, input, Split::kTest, flags.batches.reading));
  ASSIGN_OR_RETURN(MatchedClasses matched, MatchSplit(name, std::move(test), data.class_names));
  data.test = std::move(matched.dataset);
  return data;
}

}  // namespace neap::apps

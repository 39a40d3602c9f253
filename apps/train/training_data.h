// The datasets of a training, with the class numbers of the file that it begins with.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/train/bad_files.h"
#include "apps/train/batch_source.h"
#include "apps/train/train_flags.h"
#include "apps/train/training_start.h"
#include "neap/core/vision/dataset.h"

namespace neap::apps {

// Gives the network as many classes as the file with which training begins, or else the dataset, if
// --classes is not given and the network is neither a file's nor a plan's (--plan). A network of
// tokens keeps its vocabulary, of which no text need have all, and one of a plans file the classes
// of the file dataset.json beside it, if there is one. Errors: those of the file and the dataset.
absl::Status TakeClasses(TrainFlags& flags);

struct TrainingData {
  std::unique_ptr<Dataset> dataset = nullptr;        // null: --batch-file
  std::vector<std::unique_ptr<Dataset>> sized = {};  // by --sizes: with images of each size
  std::unique_ptr<Dataset> test = nullptr;           // null: no evaluation
  std::vector<std::string> class_names = {};         // by number; empty: unknown
  std::string text = {};                // "imagefolder:train, 48 images of 3x16x16, 3 classes"
  std::vector<std::string> notes = {};  // sentences that a user may not expect

  // `bad_files` must outlive the datasets. Errors: those of OpenSplit(), and of MatchSplit() if the
  // training is resumed.
  static absl::StatusOr<TrainingData> Open(const TrainFlags& flags, const NetInput& input,
                                           const TrainingStart& start, BadFiles* bad_files);
};

}  // namespace neap::apps

// The end of an epoch in neap train: it evaluates the network on the images of --val, keeps the
// best weights (--save-best), and lists the files that --skip-bad has skipped.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/train/bad_files.h"
#include "apps/train/batch_source.h"
#include "apps/train/best_weights.h"
#include "apps/train/evaluation.h"
#include "apps/train/train_flags.h"
#include "neap/core/device/communicator.h"
#include "neap/core/run/session.h"
#include "neap/core/vision/dataset.h"

namespace neap::apps {

struct EpochResult {
  int64_t step = 0;                         // steps taken
  std::optional<Accuracy> validation = {};  // empty without --val, after Ctrl-C and a failure
  absl::Status failure = {};                // of the validation, or of writing the best weights
  bool interrupted = false;                 // the validation
  bool is_best = false;                     // so far, and saved
  std::vector<std::string> bad_files = {};  // errors of files that are new in this epoch
  int64_t all_bad_files = 0;                // and in those before
};

class EpochEnd {
 public:
  // Opens the folder of --val, if it is given. `classes` are those of training, by number; empty if
  // they have no names. `bad_files` must outlive the dataset. Errors: those of OpenSplit() and
  // MatchSplit().
  static absl::StatusOr<EpochEnd> Open(const TrainFlags& flags, const NetInput& input,
                                       const std::vector<std::string>& classes,
                                       BadFiles* bad_files);
  const std::vector<std::string>& notes() const { return notes_; }  // on what --val lacks

  // Called by all ranks together, with no step in flight. A validation that fails does not end
  // training: the next step shows whether the session can go on. `metadata` are those of the
  // session. Errors: those of the communicator.
  absl::StatusOr<EpochResult> Run(Session& session, const FileMetadata& metadata,
                                  Communicator* communicator);

 private:
  EpochEnd(int64_t batch, int64_t workers, BadFiles* bad_files)
      : batch_(batch), workers_(workers), bad_files_(bad_files) {}
  absl::Status Validate(Session& session, const FileMetadata& metadata, Communicator* communicator,
                        EpochResult& result);

  int64_t batch_;
  int64_t workers_;
  BadFiles* bad_files_;                  // null: bad files are errors
  std::unique_ptr<Dataset> validation_;  // null: none
  std::optional<BestWeights> best_;      // empty without --save-best
  std::vector<std::string> notes_;
};

}  // namespace neap::apps

// The weights of the best validation so far, in a file (--save-best): those with the highest
// accuracy, of segmentation the highest mean Dice or IoU (Accuracy::score()), and of several with
// the same, the lowest loss.
//
// The file says how good they were ("neap.validation" in its metadata), so that a training that is
// resumed replaces it by nothing worse. With several ranks, the others wait while rank 0 writes the
// file.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/train/evaluation.h"
#include "neap/core/checkpoint/checkpoint.h"
#include "neap/core/device/communicator.h"
#include "neap/core/run/session.h"

namespace neap::apps {

class BestWeights {
 public:
  BestWeights(std::string path, DType dtype) : path_(std::move(path)), dtype_(dtype) {}

  const std::string& path() const { return path_; }
  // Compares with the file at the path, too, if there is one. Errors: DATA_LOSS.
  absl::Status Continue();
  // Writes the weights, or their averages, if the validation is the best so far; returns whether it
  // is. By all ranks, of which rank 0 decides and writes. `metadata` are the session's, which stay
  // so. Errors: those of Session::SaveWeights() and the communicator.
  absl::StatusOr<bool> Offer(const Accuracy& validation, const FileMetadata& metadata,
                             Session& session, Communicator* communicator);

 private:
  struct Validation {
    double accuracy = 0;
    double score = 0;
    double loss = 0;
  };
  bool IsBetter(const Accuracy& validation) const;
  absl::Status Save(const FileMetadata& metadata, Session& session,
                    const Communicator* communicator) const;

  std::string path_;
  DType dtype_;
  std::optional<Validation> best_ = {};
};

}  // namespace neap::apps

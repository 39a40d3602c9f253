// Accuracy on a dataset: of images, or of pixels where those are labelled, every one counted once.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "neap/core/input/dataset.h"
#include "neap/core/run/session.h"

namespace neap::apps {

struct Accuracy {
  int64_t correct = 0;
  int64_t images = 0;
  int64_t labels = 0;  // as many, or one for each of their pixels
  double loss = 0;     // the mean over all labels
  double percent() const {
    return labels == 0 ? 0 : 100.0 * static_cast<double>(correct) / static_cast<double>(labels);
  }
};

// In batches of `batch`, the last of which may be smaller. Nothing after Ctrl-C. Errors: those of
// the dataset and the session.
absl::StatusOr<std::optional<Accuracy>> Evaluate(Session& session, const Dataset& dataset,
                                                 int64_t batch);

}  // namespace neap::apps

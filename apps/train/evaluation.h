// Accuracy over a dataset, per image or, if pixels are labelled, per pixel; each counts once.
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
  int64_t labels = 0;  // one per image or per pixel
  double loss = 0;     // the mean over all labels
  double percent() const {
    return labels == 0 ? 0 : 100.0 * static_cast<double>(correct) / static_cast<double>(labels);
  }
};

// Evaluates in batches of `batch` images, the last of which may be smaller. Empty after Ctrl-C.
// Errors: those of the dataset and the session.
absl::StatusOr<std::optional<Accuracy>> Evaluate(Session& session, const Dataset& dataset,
                                                 int64_t batch);

}  // namespace neap::apps

// Accuracy over a dataset, per image or, if pixels are labelled, per pixel; each counts once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/cli/output.h"
#include "neap/core/device/communicator.h"
#include "neap/core/input/dataset.h"
#include "neap/core/run/session.h"

namespace neap::apps {

struct Accuracy {
  int64_t correct = 0;
  int64_t images = 0;
  int64_t labels = 0;  // one per image or per pixel
  double loss = 0;     // the mean over all labels

  // From 0 to 1.
  double fraction() const {
    return labels == 0 ? 0 : static_cast<double>(correct) / static_cast<double>(labels);
  }
};

// Evaluates in batches of `batch` images, the last of which may be smaller. With a communicator,
// each rank evaluates a part of the dataset, and all return the accuracy over all of it. Empty
// after Ctrl-C. Errors: those of the dataset and the session; FAILED_PRECONDITION naming the image
// for which the network's output is not finite; UNAVAILABLE if that is another rank's.
absl::StatusOr<std::optional<Accuracy>> Evaluate(Session& session, const Dataset& dataset,
                                                 int64_t batch,
                                                 Communicator* communicator = nullptr);

// Checks a prediction whose first image is number `first` of the dataset. Errors:
// FAILED_PRECONDITION naming the first image for which a probability is not finite.
absl::Status CheckFinite(const Prediction& prediction, int64_t first);

// "97.22% (350 of 360 images), loss 0.0956"
std::string ToText(const Accuracy& accuracy);
Json ToJson(const Accuracy& accuracy);

}  // namespace neap::apps

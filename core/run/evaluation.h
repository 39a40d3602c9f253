// Evaluation with an executable of Mode::kInference, of batches that may be smaller than the
// network's. Private to the session.
//
//   ASSIGN_OR_RETURN(StepResult result, EvaluateFeeds(inference, staging, feeds));
//   ASSIGN_OR_RETURN(Prediction prediction, ReadPrediction(inference, images, device));
//
// *Errors*: those of ExamplesIn(), staging and executor.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "neap/core/device/device.h"
#include "neap/core/program/feeds.h"
#include "neap/core/run/executable.h"
#include "neap/core/run/session_results.h"
#include "neap/core/run/staging.h"

namespace neap {

// Runs one iteration and waits for its results. Losses are means over the labels or targets that
// are known, or 0 if there are none. After an error, work may be in the streams.
absl::StatusOr<StepResult> EvaluateFeeds(Executable& inference, Staging& staging,
                                         const Feeds& feeds);

// What the main loss made of the first `images` images that were evaluated last. Errors:
// INVALID_ARGUMENT for a network without a loss.
absl::StatusOr<Prediction> ReadPrediction(const Executable& inference, int64_t images,
                                          Device& device);

}  // namespace neap

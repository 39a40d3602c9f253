// Evaluation with a runtime of Mode::kInference, of batches that may be smaller than the network's.
// Private to the session.
//
//   const Batch batch = WithoutLabels(images, inference.program);
//   ASSIGN_OR_RETURN(StepResult result, EvaluateBatch(inference, staging, batch));
//   ASSIGN_OR_RETURN(Prediction prediction, ReadPrediction(inference, images.size(), device));
//
// *Errors*: those of ImagesIn(), staging and executor.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "neap/core/device/device.h"
#include "neap/core/input/batch.h"
#include "neap/core/program/program.h"
#include "neap/core/run/runtime.h"
#include "neap/core/run/session_results.h"
#include "neap/core/run/staging.h"

namespace neap {

// Images as a batch in which nothing is labelled.
Batch WithoutLabels(absl::Span<const float> images, const Program& program);

// Runs one iteration and waits for its result, the loss of which is the mean over the labels that
// are classes, or 0 if there are none. After an error, work may be in the streams.
absl::StatusOr<StepResult> EvaluateBatch(Runtime& inference, Staging& staging, const Batch& batch);

// The predictions for the batch that was evaluated last, which had `values` image values.
absl::StatusOr<Prediction> ReadPrediction(const Runtime& inference, int64_t values, Device& device);

}  // namespace neap

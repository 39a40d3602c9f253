#include "neap/core/run/evaluation.h"

#include <utility>
#include <vector>

#include "neap/core/base/status_macros.h"
#include "neap/core/program/inference_results.h"
#include "neap/core/run/tensor_values.h"

namespace neap {
namespace {

// The first `elements` values of the tensors of all sub-batches.
absl::StatusOr<std::vector<float>> ReadParts(const std::vector<TensorId>& parts, size_t elements,
                                             const Runtime& inference, Device& device) {
  std::vector<float> all;
  for (TensorId part : parts) {
    ASSIGN_OR_RETURN(const std::vector<float> values,
                     ReadValues(inference.program.tensor(part), *inference.executor, device));
    all.insert(all.end(), values.begin(), values.end());
  }
  all.resize(elements);
  return all;
}

}  // namespace

Batch WithoutLabels(absl::Span<const float> images, const Program& program) {
  const PerImage per_image = ValuesPerImage(program);
  const int64_t count = static_cast<int64_t>(images.size()) / per_image.values;
  return {.images = {},
          .labels = std::vector<int32_t>(static_cast<size_t>(count * per_image.labels), kNoLabel),
          .borrowed = images};
}

absl::StatusOr<StepResult> EvaluateBatch(Runtime& inference, Staging& staging, const Batch& batch) {
  const Program& program = inference.program;
  const int64_t size = program.net.batch;
  ASSIGN_OR_RETURN(const int64_t count, ImagesIn(batch, program));
  Batch filled_up;  // a batch of the network's size is sent as it is, without a copy
  if (count < size) {
    ASSIGN_OR_RETURN(filled_up, FilledUp(batch, program));
  }
  RETURN_IF_ERROR(staging.Send(count < size ? filled_up : batch, {}, program, *inference.executor));
  RETURN_IF_ERROR(inference.Iterate(staging));
  ASSIGN_OR_RETURN(const Staging::Received received, staging.Await());
  StepResult result = {
      .loss = received.loss, .correct = received.correct, .labels = LabelledIn(batch)};
  // The kernel computes the mean over all labels or elements of the filled-up batch.
  const PerImage per_image = ValuesPerImage(program);
  const int64_t all = size * (batch.targets.empty() ? per_image.labels : per_image.targets);
  if (result.labels > 0 && result.labels < all)
    result.loss *= static_cast<float>(all) / static_cast<float>(result.labels);
  return result;
}

absl::StatusOr<Prediction> ReadPrediction(const Runtime& inference, int64_t values,
                                          Device& device) {
  const Program& program = inference.program;
  const Shape& shape = program.tensor(program.predictions.front()).spec.shape;
  Prediction prediction = {
      .shape = {values / ValuesPerImage(program).values, shape.c(), shape.h(), shape.w()}};
  const auto elements = static_cast<size_t>(prediction.shape.elements());
  std::vector<TensorId> logits;
  for (TensorId predictions : program.predictions) logits.push_back(LogitsOf(program, predictions));
  ASSIGN_OR_RETURN(prediction.logits, ReadParts(logits, elements, inference, device));
  ASSIGN_OR_RETURN(prediction.probabilities,
                   ReadParts(program.predictions, elements, inference, device));
  return prediction;
}

}  // namespace neap

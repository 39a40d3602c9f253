#include "neap/core/run/evaluation.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/graph/source.h"
#include "neap/core/run/tensor_values.h"

namespace neap {
namespace {

// The first `elements` values of the port.
absl::StatusOr<std::vector<float>> ReadPort(const Port& port, size_t elements,
                                            const Executable& inference, Device& device) {
  std::vector<float> all;
  for (TensorId part : port.parts) {
    ASSIGN_OR_RETURN(const std::vector<float> values,
                     ReadValues(inference.program.tensor(part), *inference.executor, device));
    all.insert(all.end(), values.begin(), values.end());
  }
  all.resize(elements);
  return all;
}

// The feed with which the loss alone compares its predictions, and which can say that there is
// nothing to compare; null if there is none.
const Port* TargetOf(const LossPort& loss, const Program& program) {
  const Port* const feed = program.FeedCalled(loss.target);
  if (feed == nullptr || !program.IsTarget(*feed)) return nullptr;
  const DType dtype = program.SpecOf(*feed).dtype;
  return dtype == DType::kInt32 || dtype == DType::kFp32 ? feed : nullptr;
}

// Examples that are missing count in a loss unless it is known that they have no target.
absl::Status CheckWholeBatch(int64_t examples, const Program& program) {
  if (examples == program.net.batch) return absl::OkStatus();
  for (const LossPort& loss : program.losses) {
    if (TargetOf(loss, program) != nullptr) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "there are ", examples, " examples for a batch of ", program.net.batch, ", but loss '",
        loss.name, "' is a mean over all of the batch, because no feed is its target alone"));
  }
  return absl::OkStatus();
}

// The kernel computes the mean over all of the filled-up batch.
void AverageOverKnown(const LossPort& port, const Feeds& feeds, const Program& program,
                      LossResult& loss) {
  const Port* const target = TargetOf(port, program);
  if (target == nullptr) return;
  const FeedValue* const given = FindFeed(feeds, target->name);
  if (given == nullptr) return;
  const Shape targets = program.SpecOf(*target).shape;
  const Shape predictions = program.SpecOf(port.predictions).shape;
  const KnownTargets known = CountKnown(*given, targets, predictions);
  loss.labels = known.values;
  loss.counted = port.mean == LossMean::kLabels ? known.values : known.examples;
  if (port.mean == LossMean::kKnown) return;
  const bool of_images = port.mean == LossMean::kImages;
  const bool reads_labels = program.SpecOf(*target).dtype == DType::kInt32;
  const int64_t values = reads_labels ? LabelShape(predictions).elements() : targets.elements();
  const int64_t all = of_images ? targets.n() : values;
  if (loss.counted > 0 && loss.counted < all)
    loss.loss *= static_cast<float>(all) / static_cast<float>(loss.counted);
}

}  // namespace

absl::StatusOr<StepResult> EvaluateFeeds(Executable& inference, Staging& staging,
                                         const Feeds& feeds) {
  const Program& program = inference.program;
  ASSIGN_OR_RETURN(const int64_t examples, ExamplesIn(feeds, program));
  RETURN_IF_ERROR(CheckWholeBatch(examples, program));
  RETURN_IF_ERROR(staging.Send(feeds, {}, program, *inference.executor));
  RETURN_IF_ERROR(inference.Iterate(staging));
  ASSIGN_OR_RETURN(Staging::Received received, staging.Await());
  for (size_t i = 0; i < received.losses.size(); ++i)
    AverageOverKnown(program.losses[i], feeds, program, received.losses[i]);
  for (NamedTensor& output : received.outputs) {
    output.shape = WithFirstExtent(std::move(output.shape), examples);
    output.values.resize(static_cast<size_t>(output.shape.elements()));
  }
  return ResultOf(std::move(received));
}

absl::StatusOr<Prediction> ReadPrediction(const Executable& inference, int64_t images,
                                          Device& device) {
  const Program& program = inference.program;
  const LossPort* const loss = program.MainLoss();
  if (loss == nullptr)
    return absl::InvalidArgumentError(absl::StrCat(program.net.name, " has no loss"));
  if (program.SpecOf(loss->logits).shape != program.SpecOf(loss->predictions).shape) {
    return absl::InvalidArgumentError(
        absl::StrCat(program.net.name, ": its loss '", loss->name,
                     "' makes no predictions of what it reads; make them an output"));
  }
  const Shape shape = program.SpecOf(loss->predictions).shape;
  Prediction prediction = {.shape = WithFirstExtent(shape, images)};
  const auto elements = static_cast<size_t>(prediction.shape.elements());
  ASSIGN_OR_RETURN(prediction.logits, ReadPort(loss->logits, elements, inference, device));
  ASSIGN_OR_RETURN(prediction.probabilities,
                   ReadPort(loss->predictions, elements, inference, device));
  return prediction;
}

}  // namespace neap

#include "apps/train/evaluation.h"

#include "apps/cli/interrupt.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/input/batch.h"
#include "neap/core/input/loader.h"

namespace neap::apps {

absl::StatusOr<std::optional<Accuracy>> Evaluate(Session& session, const Dataset& dataset,
                                                 int64_t batch) {
  constexpr int32_t kNoClass = -1;
  Accuracy accuracy = {.images = dataset.size(), .labels = dataset.size() * dataset.labels()};
  for (int64_t first = 0; first < dataset.size(); first += batch) {
    if (Interrupted()) return std::nullopt;
    ASSIGN_OR_RETURN(Batch images, ReadBatch(dataset, first, batch));
    images.images.resize(static_cast<size_t>(batch * dataset.shape().elements()));
    images.labels.resize(static_cast<size_t>(batch * dataset.labels()), kNoClass);
    images.size = batch;
    ASSIGN_OR_RETURN(const StepResult result, session.Evaluate(images));
    accuracy.correct += result.correct;
  }
  return accuracy;
}

}  // namespace neap::apps

#include "apps/train/evaluation.h"

#include <algorithm>

#include "apps/cli/interrupt.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/input/batch.h"
#include "neap/core/input/loader.h"

namespace neap::apps {

absl::StatusOr<std::optional<Accuracy>> Evaluate(Session& session, const Dataset& dataset,
                                                 int64_t batch) {
  Accuracy accuracy = {.images = dataset.size(), .labels = dataset.size() * dataset.labels()};
  for (int64_t first = 0; first < dataset.size(); first += batch) {
    if (Interrupted()) return std::nullopt;
    ASSIGN_OR_RETURN(const Batch images,
                     ReadBatch(dataset, first, std::min(batch, dataset.size() - first)));
    ASSIGN_OR_RETURN(const StepResult result, session.Evaluate(images));
    accuracy.correct += result.correct;
    accuracy.loss += static_cast<double>(result.loss) * static_cast<double>(images.size);
  }
  accuracy.loss /= static_cast<double>(accuracy.images);
  return accuracy;
}

}  // namespace neap::apps

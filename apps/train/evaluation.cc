#include "apps/train/evaluation.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/cli/interrupt.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/input/batch.h"
#include "neap/core/input/loader.h"

namespace neap::apps {
namespace {

// The error for a batch whose loss is not finite. Predicts its images to find the first that has
// such an output.
absl::Status LossIsNotFinite(Session& session, const Batch& batch, int64_t first) {
  ASSIGN_OR_RETURN(const Prediction prediction, session.Predict(batch.images));
  RETURN_IF_ERROR(CheckFinite(prediction, first));
  return absl::FailedPreconditionError(
      absl::StrCat("the loss of images ", first, " to ", first + batch.size - 1, " is not finite"));
}

}  // namespace

absl::StatusOr<std::optional<Accuracy>> Evaluate(Session& session, const Dataset& dataset,
                                                 int64_t batch) {
  Accuracy accuracy = {.images = dataset.size(), .labels = dataset.size() * dataset.labels()};
  for (int64_t first = 0; first < dataset.size(); first += batch) {
    if (Interrupted()) return std::nullopt;
    ASSIGN_OR_RETURN(const Batch images,
                     ReadBatch(dataset, first, std::min(batch, dataset.size() - first)));
    ASSIGN_OR_RETURN(const StepResult result, session.Evaluate(images));
    if (!std::isfinite(result.loss)) return LossIsNotFinite(session, images, first);
    accuracy.correct += result.correct;
    accuracy.loss += static_cast<double>(result.loss) * static_cast<double>(images.size);
  }
  accuracy.loss /= static_cast<double>(accuracy.images);
  return accuracy;
}

absl::Status CheckFinite(const Prediction& prediction, int64_t first) {
  const std::vector<float>& values = prediction.probabilities;
  const auto bad = std::find_if_not(values.begin(), values.end(),
                                    [](float value) { return std::isfinite(value); });
  if (bad == values.end()) return absl::OkStatus();
  const int64_t per_image = std::ssize(values) / prediction.shape.n();
  return absl::FailedPreconditionError(
      absl::StrCat("the network's output for image ", first + (bad - values.begin()) / per_image,
                   " is not finite (infinite or NaN); check the weights"));
}

std::string ToText(const Accuracy& accuracy) {
  return absl::StrFormat("%.2f%% (%d of %d %s), loss %.6g", 100 * accuracy.fraction(),
                         accuracy.correct, accuracy.labels,
                         accuracy.labels > accuracy.images ? "pixels" : "images", accuracy.loss);
}

Json ToJson(const Accuracy& accuracy) {
  return {{"accuracy", accuracy.fraction()},
          {"loss", accuracy.loss},
          {"images", accuracy.images},
          {"labels", accuracy.labels},
          {"correct", accuracy.correct}};
}

}  // namespace neap::apps

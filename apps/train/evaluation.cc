#include "apps/train/evaluation.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

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

// Images [begin, end). The loss is the sum over them.
absl::StatusOr<std::optional<Accuracy>> EvaluatePart(Session& session, const Dataset& dataset,
                                                     int64_t batch, int64_t begin, int64_t end,
                                                     int64_t workers) {
  Accuracy accuracy;
  if (dataset.decodes()) accuracy.correct_top5 = 0;
  if (begin == end) return accuracy;
  ASSIGN_OR_RETURN(const std::unique_ptr<Loader> loader,
                   Loader::InOrder(dataset, {begin, end - begin}, batch, workers));
  Batch images;
  for (int64_t first = begin; first < end; first += batch) {
    if (Interrupted()) return std::nullopt;
    ASSIGN_OR_RETURN(images, loader->Next(std::move(images)));
    Prediction prediction;
    ASSIGN_OR_RETURN(const StepResult result,
                     session.Evaluate(images, dataset.decodes() ? &prediction : nullptr));
    if (!std::isfinite(result.loss)) return LossIsNotFinite(session, images, first);
    accuracy.correct += result.correct;
    if (dataset.decodes()) *accuracy.correct_top5 += CorrectTop5(prediction, images.labels);
    accuracy.loss += static_cast<double>(result.loss) * static_cast<double>(images.size);
  }
  return accuracy;
}

// The sum of the ranks' parts.
absl::StatusOr<std::optional<Accuracy>> SumOfRanks(
    const absl::StatusOr<std::optional<Accuracy>>& own, Communicator& communicator) {
  Json sent = {{"ok", own.ok()}};
  if (own.ok() && own->has_value()) {
    sent["correct"] = (*own)->correct;
    sent["loss"] = (*own)->loss;
    if ((*own)->correct_top5.has_value()) sent["correct_top5"] = *(*own)->correct_top5;
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> parts,
                   communicator.Exchange(sent.dump(), Communicator::Patience::kForFiles));
  RETURN_IF_ERROR(own.status());
  Accuracy sum;
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    const Json part = Json::parse(parts[rank]);
    if (!part.at("ok"))
      return absl::UnavailableError(absl::StrCat("rank ", rank, ": its evaluation has failed"));
    if (!part.contains("loss")) return std::nullopt;
    sum.correct += part.at("correct").get<int64_t>();
    sum.loss += part.at("loss").get<double>();
    if (part.contains("correct_top5"))
      sum.correct_top5 = sum.correct_top5.value_or(0) + part.at("correct_top5").get<int64_t>();
  }
  return sum;
}

}  // namespace

absl::StatusOr<std::optional<Accuracy>> Evaluate(Session& session, const Dataset& dataset,
                                                 int64_t batch, Communicator* communicator,
                                                 int64_t workers) {
  RETURN_IF_ERROR(session.Gather());
  const int64_t rank = communicator == nullptr ? 0 : communicator->rank();
  const int64_t ranks = communicator == nullptr ? 1 : communicator->ranks();
  absl::StatusOr<std::optional<Accuracy>> accuracy =
      EvaluatePart(session, dataset, batch, dataset.size() * rank / ranks,
                   dataset.size() * (rank + 1) / ranks, workers);
  if (communicator != nullptr) accuracy = SumOfRanks(accuracy, *communicator);
  if (!accuracy.ok() || !accuracy->has_value()) return accuracy;
  (*accuracy)->images = dataset.size();
  (*accuracy)->labels = dataset.size() * dataset.labels();
  (*accuracy)->loss /= static_cast<double>(dataset.size());
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

int64_t CorrectTop5(const Prediction& prediction, const std::vector<int32_t>& labels) {
  const int64_t classes = prediction.shape.c();
  int64_t top5 = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    const float* const first = prediction.logits.data() + static_cast<int64_t>(i) * classes;
    const float* const own = first + labels[i];
    const int64_t above = std::count_if(first, first + classes, [&](const float& logit) {
      return logit > *own || (logit == *own && &logit < own);
    });
    top5 += above < 5 ? 1 : 0;
  }
  return top5;
}

std::string ToText(const Accuracy& accuracy) {
  const std::optional<double> top5 = accuracy.top5_fraction();
  return absl::StrFormat(
      "%.2f%% (%d of %d %s), %sloss %.6g", 100 * accuracy.fraction(), accuracy.correct,
      accuracy.labels, accuracy.labels > accuracy.images ? "pixels" : "images",
      top5.has_value() ? absl::StrFormat("top-5 %.2f%%, ", 100 * *top5) : "", accuracy.loss);
}

Json ToJson(const Accuracy& accuracy) {
  Json json = {{"accuracy", accuracy.fraction()},
               {"loss", accuracy.loss},
               {"images", accuracy.images},
               {"labels", accuracy.labels},
               {"correct", accuracy.correct}};
  if (accuracy.correct_top5.has_value()) {
    json["top5_accuracy"] = *accuracy.top5_fraction();
    json["correct_top5"] = *accuracy.correct_top5;
  }
  return json;
}

}  // namespace neap::apps

#include "apps/train/evaluation.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/cli/interrupt.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/vision/batch.h"
#include "neap/core/vision/loader.h"

namespace neap::apps {
namespace {

// Says what is not finite in a batch whose loss is not. Predicts its images to find the first that
// has such an output.
absl::StatusOr<std::string> WhatIsNotFinite(Session& session, const Batch& batch, int64_t first) {
  if (batch.tokens.empty()) {  // Predict() takes no tokens
    ASSIGN_OR_RETURN(const Prediction prediction, session.Predict(batch.images));
    if (const absl::Status finite = CheckFinite(prediction, first); !finite.ok())
      return std::string(finite.message());
  }
  return absl::StrCat("the loss of ", batch.tokens.empty() ? "images " : "windows ", first, " to ",
                      first + batch.size - 1, " is not finite");
}

const char* UnitOf(const Dataset& dataset) {
  constexpr size_t kAxesOfVolumes = 4;
  if (dataset.tokens() > 0) return "tokens";
  if (dataset.labels() == 1) return "images";
  return dataset.extents().size() == kAxesOfVolumes ? "voxels" : "pixels";
}

// Images [begin, end). The loss is the sum over what is counted.
absl::StatusOr<std::optional<Accuracy>> EvaluatePart(Session& session, const Dataset& dataset,
                                                     int64_t batch, int64_t begin, int64_t end,
                                                     int64_t workers) {
  Accuracy accuracy;
  const bool has_segments = dataset.labels() > 1 && dataset.tokens() == 0;
  if (dataset.decodes() && dataset.labels() == 1) accuracy.correct_top5 = 0;
  if (begin == end) return accuracy;
  ASSIGN_OR_RETURN(const std::unique_ptr<Loader> loader,
                   Loader::InOrder(dataset, {begin, end - begin}, batch, workers));
  const bool predicts = has_segments || accuracy.correct_top5.has_value();
  Batch images;
  for (int64_t first = begin; first < end; first += batch) {
    if (Interrupted()) return std::nullopt;
    ASSIGN_OR_RETURN(images, loader->Next(std::move(images)));
    Prediction prediction;
    ASSIGN_OR_RETURN(const StepResult result,
                     session.Evaluate(images, predicts ? &prediction : nullptr));
    if (!std::isfinite(result.loss) && !accuracy.not_finite.has_value()) {
      ASSIGN_OR_RETURN(accuracy.not_finite, WhatIsNotFinite(session, images, first));
    }
    accuracy.correct += result.correct;
    if (accuracy.correct_top5.has_value())
      *accuracy.correct_top5 += CorrectTop5(prediction, images.labels);
    if (has_segments) {
      if (!accuracy.confusion.has_value()) accuracy.confusion.emplace(prediction.shape.c());
      accuracy.confusion->Add(prediction.logits, images.labels, images.size);
    }
    accuracy.labels += result.labels;
    accuracy.counted += result.counted;
    accuracy.loss += static_cast<double>(result.loss) * static_cast<double>(result.counted);
  }
  return accuracy;
}

double LossFromJson(const Json& loss) {
  return loss.is_null() ? std::numeric_limits<double>::quiet_NaN() : loss.get<double>();
}

// The sum of the ranks' parts.
absl::StatusOr<std::optional<Accuracy>> SumOfRanks(
    const absl::StatusOr<std::optional<Accuracy>>& own, Communicator& communicator) {
  Json sent = {{"ok", own.ok()}};
  if (own.ok() && own->has_value()) {
    sent["correct"] = (*own)->correct;
    sent["labels"] = (*own)->labels;
    sent["counted"] = (*own)->counted;
    sent["loss"] = (*own)->loss;  // null if it is not finite: JSON has no such numbers
    if ((*own)->not_finite.has_value()) sent["not_finite"] = *(*own)->not_finite;
    if ((*own)->correct_top5.has_value()) sent["correct_top5"] = *(*own)->correct_top5;
    if ((*own)->confusion.has_value()) {
      sent["classes"] = (*own)->confusion->classes();
      sent["confusion"] = (*own)->confusion->counts();
    }
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
    sum.labels += part.at("labels").get<int64_t>();
    sum.counted += part.at("counted").get<int64_t>();
    sum.loss += LossFromJson(part.at("loss"));
    if (part.contains("not_finite") && !sum.not_finite.has_value())
      sum.not_finite = part.at("not_finite").get<std::string>();
    if (part.contains("correct_top5"))
      sum.correct_top5 = sum.correct_top5.value_or(0) + part.at("correct_top5").get<int64_t>();
    if (part.contains("confusion")) {
      if (!sum.confusion.has_value()) sum.confusion.emplace(part.at("classes").get<int64_t>());
      sum.confusion->AddCounts(part.at("confusion").get<std::vector<int64_t>>());
    }
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
  (*accuracy)->unit = UnitOf(dataset);
  (*accuracy)->loss /= static_cast<double>(std::max<int64_t>((*accuracy)->counted, 1));
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
    if (labels[i] == kNoLabel) continue;
    const float* const first = prediction.logits.data() + static_cast<int64_t>(i) * classes;
    const float* const own = first + labels[i];
    if (std::isnan(*own)) continue;
    const int64_t above = std::count_if(first, first + classes, [&](const float& logit) {
      return logit > *own || (logit == *own && &logit < own);
    });
    top5 += above < 5 ? 1 : 0;
  }
  return top5;
}

bool Accuracy::is_of_volumes() const { return std::string_view(unit) == "voxels"; }

std::optional<double> Accuracy::segments_score() const {
  if (!confusion.has_value()) return std::nullopt;
  return is_of_volumes() ? confusion->MeanForegroundDice() : confusion->MeanIou();
}

namespace {

// "mean IoU 60.00%, "
std::string SegmentsText(const Accuracy& accuracy) {
  const std::optional<double> score = accuracy.segments_score();
  if (!score.has_value()) return "";
  return accuracy.is_of_volumes()
             ? absl::StrFormat("mean Dice %.2f%% without class 0, ", 100 * *score)
             : absl::StrFormat("mean IoU %.2f%%, ", 100 * *score);
}

// ", perplexity 24.53"
std::string PerplexityText(const Accuracy& accuracy) {
  const std::optional<double> perplexity = accuracy.perplexity();
  return perplexity.has_value() ? absl::StrFormat(", perplexity %.6g", *perplexity) : "";
}

Json OptionalJson(std::optional<double> score) { return score.has_value() ? Json(*score) : Json(); }

// The scores of segmentation; null where there is none.
Json SegmentsJson(const Confusion& confusion) {
  Json iou = Json::array(), dice = Json::array();
  for (int64_t label = 0; label < confusion.classes(); ++label) {
    iou.push_back(OptionalJson(confusion.Iou(label)));
    dice.push_back(OptionalJson(confusion.Dice(label)));
  }
  return {{"mean_iou", OptionalJson(confusion.MeanIou())},
          {"mean_foreground_dice", OptionalJson(confusion.MeanForegroundDice())},
          {"class_iou", iou},
          {"class_dice", dice}};
}

}  // namespace

std::string ToText(const Accuracy& accuracy) {
  const std::optional<double> top5 = accuracy.top5_fraction();
  return absl::StrFormat(
      "%.2f%% (%d of %d %s), %s%sloss %.6g%s%s", 100 * accuracy.fraction(), accuracy.correct,
      accuracy.labels, accuracy.unit,
      top5.has_value() ? absl::StrFormat("top-5 %.2f%%, ", 100 * *top5) : "",
      SegmentsText(accuracy), accuracy.loss, PerplexityText(accuracy),
      accuracy.not_finite.has_value() ? absl::StrCat(" (", *accuracy.not_finite, ")") : "");
}

Json ToJson(const Accuracy& accuracy) {
  Json json = {{"accuracy", accuracy.fraction()},
               {"loss", accuracy.loss},  // null if it is not finite
               {"images", accuracy.images},
               {"labels", accuracy.labels},
               {"correct", accuracy.correct}};
  if (accuracy.not_finite.has_value()) json["not_finite"] = *accuracy.not_finite;
  if (accuracy.correct_top5.has_value()) {
    json["top5_accuracy"] = *accuracy.top5_fraction();
    json["correct_top5"] = *accuracy.correct_top5;
  }
  if (const std::optional<double> perplexity = accuracy.perplexity(); perplexity.has_value())
    json["perplexity"] = *perplexity;  // null if it is not finite
  if (accuracy.confusion.has_value()) json.update(SegmentsJson(*accuracy.confusion));
  return json;
}

}  // namespace neap::apps

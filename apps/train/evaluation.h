// Accuracy over a dataset, per image or, if pixels, voxels or tokens are labelled, per one of
// these; each counts once.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/cli/output.h"
#include "neap/core/data/confusion.h"
#include "neap/core/device/communicator.h"
#include "neap/core/run/session.h"
#include "neap/core/vision/dataset.h"

namespace neap::apps {

struct Accuracy {
  int64_t correct = 0;
  int64_t images = 0;
  int64_t labels = 0;   // one per image or per pixel, without those that are kNoLabel
  double loss = 0;      // the mean over what is counted
  int64_t counted = 0;  // of the main loss: labels, or examples that have any (LossResult)
  // If the loss is not finite: of which images, or the first image whose output is not.
  std::optional<std::string> not_finite = {};
  // Images whose class is among the five most probable ones.
  std::optional<int64_t> correct_top5 = {};
  // How pixels or voxels were labelled, for scores of segmentation.
  std::optional<Confusion> confusion = {};
  const char* unit = "images";  // what has a label: also "pixels", "voxels", "tokens"

  // The fraction of labels that were predicted correctly, from 0 to 1.
  double fraction() const {
    return labels == 0 ? 0 : static_cast<double>(correct) / static_cast<double>(labels);
  }
  // exp(loss) of a model of tokens: as uncertain as a choice among so many.
  std::optional<double> perplexity() const {
    if (std::string_view(unit) != "tokens") return std::nullopt;
    return std::exp(loss);
  }
  bool is_of_volumes() const;
  // Of labelled voxels the mean Dice without class 0, of pixels the mean IoU. Empty for others, and
  // if no class has a score.
  std::optional<double> segments_score() const;
  // By which the best weights are chosen: that of segments, or else the fraction.
  double score() const { return segments_score().value_or(fraction()); }
  // Empty if it was not counted.
  std::optional<double> top5_fraction() const {
    if (!correct_top5.has_value() || labels == 0) return std::nullopt;
    return static_cast<double>(*correct_top5) / static_cast<double>(labels);
  }
};

// Evaluates in batches of `batch` images, the last of which may be smaller. With a communicator,
// each rank evaluates a part of the dataset, and all return the accuracy over all of it. Folders of
// images (Dataset::decodes()) with a label each also have a top-5 accuracy, and labelled pixels and
// voxels a mean IoU and Dice; `workers` threads read them, or, if it is 0, as many as are worth it.
// Empty after Ctrl-C. A loss that is not finite is a result, not an error: a network in training
// may recover. Errors: those of the dataset and the session; UNAVAILABLE if they are another
// rank's.
absl::StatusOr<std::optional<Accuracy>> Evaluate(Session& session, const Dataset& dataset,
                                                 int64_t batch,
                                                 Communicator* communicator = nullptr,
                                                 int64_t workers = 0);

// Checks a prediction whose first image is number `first` of the dataset. Errors:
// FAILED_PRECONDITION naming the first image for which a probability is not finite.
absl::Status CheckFinite(const Prediction& prediction, int64_t first);

// How many images, of which each has one label, have it among the five classes with the largest
// logits. Classes with equal logits count in the order of their numbers, and NaN is not among them.
int64_t CorrectTop5(const Prediction& prediction, const std::vector<int32_t>& labels);

// "97.22% (350 of 360 images), loss 0.0956", "71.20% (356 of 500 images), top-5 91.40%, loss 1.21",
// "81.25% (13 of 16 pixels), mean IoU 60.00%, loss 0.7",
// "99.00% (990 of 1000 voxels), mean Dice 75.00% without class 0, loss 0.1",
// "40.00% (40 of 100 tokens), loss 3, perplexity 20.0855",
// "10.00% (36 of 360 images), loss nan (the network's output for image 4 is not finite ...)"
std::string ToText(const Accuracy& accuracy);
Json ToJson(const Accuracy& accuracy);

}  // namespace neap::apps

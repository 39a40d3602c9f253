// How a network labels positions: of those of each class, how many it gives each class. Scores of
// segmentation follow from it.
//
//                 predicted 0   1   2
//   label 0              50     3   0    class 1: IoU 20 / (20 + 3 + 2), of what is labelled or
//   label 1               2    20   0    predicted as 1 the share that is both,
//   label 2               0     0   9    Dice 2 * 20 / (2 * 20 + 3 + 2)
//
//   Confusion confusion(/*classes=*/3);
//   confusion.Add(logits, labels, /*images=*/2);  // N, C, ... and N, ...
//   confusion.MeanIou();
//
// A position whose logits have a NaN is given none of the classes. Positions without a label do not
// count. A class that is neither labelled nor predicted has no score, and is not in the means.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/types/span.h"

namespace neap {

class Confusion {
 public:
  explicit Confusion(int64_t classes)
      : classes_(classes), counts_(static_cast<size_t>(classes * (classes + 1))) {}
  int64_t classes() const { return classes_; }

  // `images` times C x positions logits, and as many times positions labels, classes or kNoLabel.
  // The first of the largest logits is the prediction.
  void Add(absl::Span<const float> logits, absl::Span<const int32_t> labels, int64_t images);
  // Positions labelled `label` that are predicted as `predicted`; classes() stands for none.
  int64_t count(int64_t label, int64_t predicted) const {
    return counts_[static_cast<size_t>(label * (classes_ + 1) + predicted)];
  }
  // All of them, row by row, for a sum over ranks.
  const std::vector<int64_t>& counts() const { return counts_; }
  void AddCounts(const std::vector<int64_t>& counts);

  std::optional<double> Accuracy() const;  // the share of positions that are predicted correctly
  std::optional<double> Iou(int64_t label) const;
  std::optional<double> Dice(int64_t label) const;
  std::optional<double> MeanIou() const;
  // Without class 0, the background, as in nnU-Net.
  std::optional<double> MeanForegroundDice() const;

 private:
  // Of a class: labelled and predicted as it; and either one without the other.
  std::pair<int64_t, int64_t> HitsAndMisses(int64_t label) const;

  int64_t classes_;
  std::vector<int64_t> counts_;
};

}  // namespace neap

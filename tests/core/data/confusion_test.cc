// Scores of segmentation, by a matrix that was counted by hand and by a brute force.
#include "neap/core/data/confusion.h"

#include <doctest/doctest.h>

#include <limits>
#include <random>
#include <vector>

#include "neap/core/program/feeds.h"

namespace neap {
namespace {

TEST_CASE("the scores of a small matrix are those of their definitions") {
  Confusion confusion(3);
  //                       0   1   2  none
  confusion.AddCounts({50, 3, 0, 0,  //
                       2, 20, 0, 0,  //
                       0, 0, 0, 0});
  CHECK(confusion.Accuracy() == doctest::Approx(70.0 / 75));
  CHECK(confusion.Iou(0) == doctest::Approx(50.0 / 55));
  CHECK(confusion.Iou(1) == doctest::Approx(20.0 / 25));
  CHECK(!confusion.Iou(2).has_value());  // neither labelled nor predicted
  CHECK(confusion.Dice(1) == doctest::Approx(40.0 / 45));
  CHECK(confusion.MeanIou() == doctest::Approx((50.0 / 55 + 0.8) / 2));
  CHECK(confusion.MeanForegroundDice() == doctest::Approx(40.0 / 45));
  confusion.AddCounts({0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  CHECK(confusion.Iou(2) == 0.0);
  CHECK(confusion.Iou(0) == doctest::Approx(50.0 / 56));
}

TEST_CASE("without labels there are no scores") {
  Confusion confusion(2);
  confusion.Add(std::vector<float>(4), std::vector<int32_t>{kNoLabel, kNoLabel}, 1);
  CHECK(!confusion.Accuracy().has_value());
  CHECK(!confusion.MeanIou().has_value());
  CHECK(!confusion.MeanForegroundDice().has_value());
}

TEST_CASE("predictions are the first of the largest logits of each position, and none with a NaN") {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  Confusion confusion(2);
  // Two images of three positions: the logits of class 0, then those of class 1.
  const std::vector<float> logits = {1, 2, 5, 3, 2, 4, kNan, 0, 1, 9, kNan, 2};
  confusion.Add(logits, std::vector<int32_t>{1, 1, 0, 1, 0, 0}, 2);
  CHECK(confusion.count(1, 1) == 1);  // 1 < 3
  CHECK(confusion.count(1, 0) == 1);  // 2 == 2
  CHECK(confusion.count(0, 0) == 1);  // 5 > 4
  CHECK(confusion.count(1, 2) == 1);  // NaN
  CHECK(confusion.count(0, 2) == 1);
  CHECK(confusion.count(0, 1) == 1);  // 1 < 2
  CHECK(confusion.Accuracy() == doctest::Approx(2.0 / 6));
  CHECK(confusion.Iou(1) == doctest::Approx(1.0 / 4));
}

TEST_CASE("random predictions count as a brute force counts them") {
  const uint32_t seed = std::random_device()();
  CAPTURE(seed);
  std::mt19937 random(seed);
  constexpr int64_t kClasses = 4, kImages = 3, kPositions = 35;
  std::vector<float> logits(kImages * kClasses * kPositions);
  for (float& logit : logits) logit = static_cast<float>(random() % 1000);
  std::vector<int32_t> labels(kImages * kPositions);
  for (int32_t& label : labels) label = static_cast<int32_t>(random() % (kClasses + 1)) - 1;
  Confusion confusion(kClasses);
  confusion.Add(logits, labels, kImages);
  for (int64_t c = 0; c < kClasses; ++c) {
    int64_t both = 0, labelled = 0, predicted = 0;
    for (int64_t i = 0; i < kImages * kPositions; ++i) {
      if (labels[static_cast<size_t>(i)] == kNoLabel) continue;
      bool is_largest = true;
      const auto logit = [&](int64_t k) {
        return logits[static_cast<size_t>((i / kPositions * kClasses + k) * kPositions +
                                          i % kPositions)];
      };
      for (int64_t k = 0; k < kClasses; ++k)
        is_largest = is_largest && (k < c ? logit(k) < logit(c) : logit(k) <= logit(c));
      labelled += labels[static_cast<size_t>(i)] == c ? 1 : 0;
      predicted += is_largest ? 1 : 0;
      both += is_largest && labels[static_cast<size_t>(i)] == c ? 1 : 0;
    }
    CHECK(confusion.Iou(c) == doctest::Approx(static_cast<double>(both) /
                                              static_cast<double>(labelled + predicted - both)));
    CHECK(confusion.Dice(c) == doctest::Approx(2 * static_cast<double>(both) /
                                               static_cast<double>(labelled + predicted)));
  }
}

}  // namespace
}  // namespace neap

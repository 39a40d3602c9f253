#include "neap/core/data/confusion.h"

#include <cmath>
#include <cstddef>
#include <iterator>

#include "neap/core/program/feeds.h"

namespace neap {
namespace {

// The class of the largest of `classes` logits, `stride` apart; `classes` if one is NaN.
int64_t Largest(const float* logits, int64_t classes, int64_t stride) {
  int64_t largest = 0;
  for (int64_t c = 0; c < classes; ++c) {
    const float logit = logits[c * stride];
    if (std::isnan(logit)) return classes;
    if (logit > logits[largest * stride]) largest = c;
  }
  return largest;
}

// The mean over [first, end) of those that have a value.
template <typename Score>
std::optional<double> MeanOf(int64_t first, int64_t end, const Score& score) {
  double sum = 0;
  int64_t scores = 0;
  for (int64_t label = first; label < end; ++label) {
    const std::optional<double> of_class = score(label);
    sum += of_class.value_or(0);
    scores += of_class.has_value() ? 1 : 0;
  }
  if (scores == 0) return std::nullopt;
  return sum / static_cast<double>(scores);
}

}  // namespace

void Confusion::Add(absl::Span<const float> logits, absl::Span<const int32_t> labels,
                    int64_t images) {
  const int64_t positions = std::ssize(labels) / images;
  for (int64_t i = 0; i < std::ssize(labels); ++i) {
    const int64_t label = labels[static_cast<size_t>(i)];
    if (label == kNoLabel) continue;
    const float* const first = logits.data() + i / positions * classes_ * positions + i % positions;
    const int64_t predicted = Largest(first, classes_, positions);
    ++counts_[static_cast<size_t>(label * (classes_ + 1) + predicted)];
  }
}

void Confusion::AddCounts(const std::vector<int64_t>& counts) {
  for (size_t i = 0; i < counts_.size(); ++i) counts_[i] += counts[i];
}

std::optional<double> Confusion::Accuracy() const {
  int64_t all = 0, correct = 0;
  for (const int64_t count : counts_) all += count;
  for (int64_t label = 0; label < classes_; ++label) correct += count(label, label);
  if (all == 0) return std::nullopt;
  return static_cast<double>(correct) / static_cast<double>(all);
}

std::pair<int64_t, int64_t> Confusion::HitsAndMisses(int64_t label) const {
  const int64_t hits = count(label, label);
  int64_t misses = -2 * hits;
  for (int64_t other = 0; other <= classes_; ++other) misses += count(label, other);
  for (int64_t other = 0; other < classes_; ++other) misses += count(other, label);
  return {hits, misses};
}

std::optional<double> Confusion::Iou(int64_t label) const {
  const auto [hits, misses] = HitsAndMisses(label);
  if (hits + misses == 0) return std::nullopt;
  return static_cast<double>(hits) / static_cast<double>(hits + misses);
}

std::optional<double> Confusion::Dice(int64_t label) const {
  const auto [hits, misses] = HitsAndMisses(label);
  if (hits + misses == 0) return std::nullopt;
  return static_cast<double>(2 * hits) / static_cast<double>(2 * hits + misses);
}

std::optional<double> Confusion::MeanIou() const {
  return MeanOf(0, classes_, [&](int64_t label) { return Iou(label); });
}

std::optional<double> Confusion::MeanForegroundDice() const {
  return MeanOf(1, classes_, [&](int64_t label) { return Dice(label); });
}

}  // namespace neap

#include "neap/core/plan/batch_split.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace neap {
namespace {

constexpr size_t kMaxSplits = 8;
constexpr int64_t kUnits = 64;  // of the batch
// A split that is not expected to save more is not planned for.
constexpr double kMinGain = 0.002;

}  // namespace

std::vector<int64_t> EvenParts(int64_t batch, int64_t ranks) {
  std::vector<int64_t> parts;
  for (int64_t rank = 0; rank < ranks; ++rank)
    parts.push_back(batch / ranks + (rank < batch % ranks ? 1 : 0));
  return parts;
}

BatchSplit::BatchSplit(int64_t batch, int ranks)
    : batch_(batch),
      unit_(std::max<int64_t>(1, batch / kUnits)),
      times_(static_cast<size_t>(ranks)) {}

std::optional<std::vector<int64_t>> BatchSplit::Next() {
  if (tried_.size() == kMaxSplits) return std::nullopt;
  std::optional<std::vector<int64_t>> next =
      tried_.empty() ? EvenParts(batch_, std::ssize(times_)) : Expected();
  if (!next.has_value() || std::find(tried_.begin(), tried_.end(), *next) != tried_.end())
    return std::nullopt;
  tried_.push_back(*next);
  return next;
}

void BatchSplit::Add(const std::vector<double>& seconds) {
  const std::vector<int64_t>& split = tried_.back();
  for (size_t rank = 0; rank < split.size(); ++rank) times_[rank][split[rank]] = seconds[rank];
  const double slowest = *std::max_element(seconds.begin(), seconds.end());
  if (std::isinf(slowest) || (best_.has_value() && slowest >= best_seconds_)) return;
  best_ = split;
  best_seconds_ = slowest;
}

// Between two numbers of images time is a straight line, below the smallest one to 0, beyond the
// largest as steep as between the last two. Where one fits and a larger one does not, half way
// between them is tried.
double BatchSplit::ImagesIn(double seconds, const Times& times) const {
  double images = 0, at = 0;  // of the last known point
  double rate = 0;            // images per second, up to that
  for (const auto& [known, takes] : times) {
    const auto more = static_cast<double>(known);
    if (std::isinf(takes)) {
      const double gap = more - images;
      const double most = gap > static_cast<double>(unit_) ? images + gap / 2 : images;
      return images == 0 ? most : std::min(most, images + rate * (seconds - at));
    }
    rate = takes > at ? (more - images) / (takes - at) : more / takes;
    if (seconds <= takes) return std::max(0.0, more - rate * (takes - seconds));
    images = more;
    at = takes;
  }
  return images + rate * (seconds - at);
}

std::optional<std::vector<int64_t>> BatchSplit::Expected() const {
  const auto all_in = [&](double seconds) {
    double sum = 0;
    for (const Times& times : times_) sum += ImagesIn(seconds, times);
    return sum;
  };
  const auto whole = static_cast<double>(batch_);
  double low = 0, high = 1e-9;
  while (all_in(high) < whole && high < 1e12) high *= 2;
  if (all_in(high) < whole) return std::nullopt;  // however long they take
  for (int i = 0; i < 200; ++i) {
    const double middle = low + (high - low) / 2;
    (all_in(middle) < whole ? low : high) = middle;
  }
  if (best_.has_value() && high > best_seconds_ * (1 - kMinGain)) return std::nullopt;

  // Whole units, the rest to whom rounding has taken most.
  std::vector<int64_t> split;
  std::vector<std::pair<double, size_t>> taken;
  for (size_t rank = 0; rank < times_.size(); ++rank) {
    const double exact = ImagesIn(high, times_[rank]);
    split.push_back(std::max<int64_t>(1, static_cast<int64_t>(exact) / unit_ * unit_));
    taken.emplace_back(static_cast<double>(split.back()) - exact, rank);
  }
  std::sort(taken.begin(), taken.end());
  int64_t rest = batch_ - std::accumulate(split.begin(), split.end(), int64_t{0});
  for (size_t i = 0; rest > 0; ++i) {
    int64_t& part = split[taken[i % taken.size()].second];
    part += std::min(rest, unit_);
    rest -= std::min(rest, unit_);
  }
  // Ranks with a single image may have got more than their time allows.
  while (rest < 0) {
    int64_t& largest = *std::max_element(split.begin(), split.end());
    const int64_t less = std::min(-rest, largest - 1);
    largest -= less;
    rest += less;
  }
  return split;
}

}  // namespace neap

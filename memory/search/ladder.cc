#include "neap/memory/search/ladder.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>

#include "neap/core/base/units.h"

namespace neap {
namespace {

// The levels between the ends of the ladder, on each of two scales. Long sequences have fewer, so
// that all levels together walk over about kWantedRuns runs. There are many orders with priced
// reruns, so each has fewer, and orders of at most kFewRuns runs have the fewest: between so few
// results there is little to find.
struct Levels {
  int64_t fewest, most;
};
constexpr Levels kLevels = {3, 16}, kLevelsOfPriced = {2, 12}, kLevelsOfFewPriced = {2, 6};
constexpr size_t kFewRuns = 256;
constexpr int64_t kWantedRuns = 100'000;
// Short orders have at most so many levels for different residencies.
constexpr size_t kMaxResidencies = 200;
// The levels around the minimum, as parts of it.
constexpr double kPartsOfMinimum[] = {1.02, 1.0, 0.97, 0.93, 0.85, 0.7, 0.5};

int64_t MostBytes(const Residency& residency) {
  int64_t most = 0;
  for (const Usage& usage : residency.usage) most = std::max(most, usage.bytes);
  return most;
}

int64_t LevelsOfScale(const SearchOrder& order) {
  const size_t runs = order.liveness.runs.size();
  const Levels& of_priced = runs <= kFewRuns ? kLevelsOfFewPriced : kLevelsOfPriced;
  const Levels& bounds = order.is_priced ? of_priced : kLevels;
  return std::clamp(kWantedRuns / static_cast<int64_t>(runs), bounds.fewest, bounds.most);
}

}  // namespace

Ladder::Ladder(const SearchOrder& order, const Residencies& residencies)
    : order_(order), residencies_(residencies) {
  const int64_t most_bytes = BytesToKeepAll(order.workspaces);
  if (!residencies.may_move()) {
    limits_bytes_ = {most_bytes};
    return;
  }
  least_bytes_ = MostBytes(residencies.Under({0, 0}, order, order.workspaces));
  count_ = LevelsOfScale(order);
  if (order.is_short()) AddResidencies(most_bytes);
  AddScales(most_bytes);
  if (order.may_evict_for_workspaces) AddScales(BytesToKeepAll(order.preferred));
  if (!order.is_priced || count_ >= kLevelsOfFewPriced.most) AddAroundMinimum();
  std::sort(limits_bytes_.begin(), limits_bytes_.end(), std::greater<>());
  limits_bytes_.erase(std::unique(limits_bytes_.begin(), limits_bytes_.end()), limits_bytes_.end());
}

int64_t Ladder::BytesToKeepAll(const std::vector<int64_t>& workspaces) const {
  return MostBytes(residencies_.OverlappedUnder(kNoLimit, order_, workspaces));
}

void Ladder::AddScales(int64_t most_bytes) {
  const auto least = static_cast<double>(least_bytes_);
  const double step =
      std::pow(static_cast<double>(most_bytes) / least, 1.0 / static_cast<double>(count_));
  limits_bytes_.push_back(most_bytes);
  for (int64_t i = 1; i < count_; ++i) {
    limits_bytes_.push_back(most_bytes - (most_bytes - least_bytes_) / count_ * i);
    limits_bytes_.push_back(static_cast<int64_t>(least * std::pow(step, i)));
  }
}

void Ladder::AddResidencies(int64_t most_bytes) {
  int64_t level = most_bytes;
  while (level >= least_bytes_ && limits_bytes_.size() < kMaxResidencies) {
    const Usage limit = {.bytes = level, .activation_bytes = kUnlimited};
    const Residency residency = residencies_.OverlappedUnder(limit, order_, order_.workspaces);
    level = std::min(level, MostBytes(residency));
    limits_bytes_.push_back(level);
    level -= kBlockBytes;
  }
}

void Ladder::AddAroundMinimum() {
  for (const double part : kPartsOfMinimum)
    limits_bytes_.push_back(static_cast<int64_t>(static_cast<double>(least_bytes_) * part));
}

}  // namespace neap

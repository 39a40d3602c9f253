// The ladder of the plan search: the memory limits that are tried with an order of runs.
#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "neap/core/base/units.h"
#include "neap/memory/plan_search.h"

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
// Short orders, of at most kMaxRunsOfShort runs, also have a level for each different residency,
// up to kMaxResidencies.
constexpr size_t kMaxRunsOfShort = 64, kMaxResidencies = 200;
// The levels around the minimum, as parts of it.
constexpr double kPartsOfMinimum[] = {1.02, 1.0, 0.97, 0.93, 0.85, 0.7, 0.5};

int64_t MostBytes(const Residency& residency) {
  int64_t most = 0;
  for (const Usage& usage : residency.usage) most = std::max(most, usage.bytes);
  return most;
}

}  // namespace

bool PlanSearch::IsShort(const Order& order) {
  return order.liveness.runs.size() <= kMaxRunsOfShort;
}

int64_t PlanSearch::BytesToKeepAll(const Order& order,
                                   const std::vector<int64_t>& workspaces) const {
  return MostBytes(DecideOverlapped(order, workspaces, kNoLimit));
}

std::vector<int64_t> PlanSearch::Ladder(const Order& order) const {
  if (!may_move()) return {BytesToKeepAll(order, order.workspaces)};
  const int64_t least = MostBytes(Decide(order, order.workspaces, {0, 0}));
  const size_t runs = order.liveness.runs.size();
  const Levels& of_priced = runs <= kFewRuns ? kLevelsOfFewPriced : kLevelsOfPriced;
  const Levels& bounds = order.is_priced ? of_priced : kLevels;
  const int64_t count =
      std::clamp(kWantedRuns / static_cast<int64_t>(runs), bounds.fewest, bounds.most);
  std::vector<int64_t> levels;
  const int64_t most_kept = BytesToKeepAll(order, order.workspaces);
  if (IsShort(order)) levels = LevelsOfResidencies(order, least, most_kept);
  const auto add_up_to = [&](int64_t most) {
    const double step = std::pow(static_cast<double>(most) / static_cast<double>(least),
                                 1.0 / static_cast<double>(count));
    levels.push_back(most);
    for (int64_t i = 1; i < count; ++i) {
      levels.push_back(most - (most - least) / count * i);
      levels.push_back(static_cast<int64_t>(static_cast<double>(least) * std::pow(step, i)));
    }
  };
  add_up_to(most_kept);
  if (MayGain(order)) add_up_to(BytesToKeepAll(order, order.preferred));
  if (!order.is_priced || count >= kLevelsOfFewPriced.most) {
    for (double part : kPartsOfMinimum)
      levels.push_back(static_cast<int64_t>(static_cast<double>(least) * part));
  }
  std::sort(levels.begin(), levels.end(), std::greater<>());
  levels.erase(std::unique(levels.begin(), levels.end()), levels.end());
  return levels;
}

std::vector<int64_t> PlanSearch::LevelsOfResidencies(const Order& order, int64_t least,
                                                     int64_t most) const {
  std::vector<int64_t> levels;
  int64_t level = most;
  while (level >= least && levels.size() < kMaxResidencies) {
    const Usage limit = {.bytes = level, .activation_bytes = kUnlimited};
    const Residency residency = DecideOverlapped(order, order.workspaces, limit);
    level = std::min(level, MostBytes(residency));
    levels.push_back(level);
    level -= kBlockBytes;
  }
  return levels;
}

}  // namespace neap

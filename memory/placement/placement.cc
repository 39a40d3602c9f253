#include "neap/memory/placement/placement.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "neap/memory/placement/placement_search.h"

namespace neap {
namespace {

// The search stops when the extent exceeds the lower bound by at most one part in this many.
constexpr int64_t kSearchGap = 1000;

using Blocks = std::vector<PlacementBlock>;
using Order = std::vector<size_t>;

// Block indices, sorted by key.
template <typename Key>
Order SortedBy(const Blocks& blocks, const Key& key) {
  Order order(blocks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) < key(b); });
  return order;
}

// Runs a heap over the time from start to stop of each block.
template <typename Start, typename Stop>
PlacementResult RunHeap(const Blocks& blocks, const Order& arrivals, Fit fit, const Start& start,
                        const Stop& stop) {
  const Order departures = SortedBy(blocks, stop);
  PlacementResult result = {.offsets = std::vector<int64_t>(blocks.size(), 0), .extent_bytes = 0};
  Heap heap(std::numeric_limits<int64_t>::max(), fit);
  auto departure = departures.begin();
  for (size_t i : arrivals) {
    for (; departure != departures.end() && stop(*departure) <= start(i); ++departure) {
      heap.Free(static_cast<AllocationId>(*departure))
          .IgnoreError();  // blocks with an empty lifetime were never placed
    }
    if (start(i) == stop(i)) continue;
    const Region region = heap.Allocate(static_cast<AllocationId>(i), blocks[i].bytes).value();
    result.offsets[i] = region.offset;
    result.extent_bytes = std::max(result.extent_bytes, region.end());
  }
  return result;
}

// In order of time, backwards if `reversed`: then the block that ends last is placed first. Among
// blocks that start together the longest-lived and largest come first and take the lowest places.
PlacementResult PlaceInTime(const Blocks& blocks, Fit fit, bool reversed) {
  const auto start = [&](size_t i) { return reversed ? -blocks[i].end : blocks[i].begin; };
  const auto stop = [&](size_t i) { return reversed ? -blocks[i].begin : blocks[i].end; };
  const Order arrivals = SortedBy(
      blocks, [&](size_t i) { return std::make_tuple(start(i), -stop(i), -blocks[i].bytes); });
  return RunHeap(blocks, arrivals, fit, start, stop);
}

}  // namespace

int64_t PlacementLowerBound(const std::vector<PlacementBlock>& blocks) {
  std::map<int, int64_t> change;
  for (const PlacementBlock& block : blocks) {
    change[block.begin] += block.bytes;
    change[block.end] -= block.bytes;
  }
  int64_t live = 0;
  int64_t most = 0;
  for (const auto& [step, bytes] : change) most = std::max(most, live += bytes);
  return most;
}

PlacementResult PlaceOffline(const std::vector<PlacementBlock>& blocks, const PlacementGoal& goal) {
  const int64_t lower_bound = PlacementLowerBound(blocks);
  const int64_t enough = std::max({lower_bound, goal.target_bytes, goal.limit_bytes.value_or(0)});
  PlacementResult best = PlaceInTime(blocks, Fit::kFirstFit, false);
  for (const auto& [fit, reversed] : {std::pair{Fit::kFirstFit, true},
                                      {Fit::kExactFitFirstFit, false},
                                      {Fit::kExactFitFirstFit, true}}) {
    if (best.extent_bytes <= enough || lower_bound > goal.limit_bytes.value_or(lower_bound))
      return best;
    PlacementResult attempt = PlaceInTime(blocks, fit, reversed);
    if (attempt.extent_bytes < best.extent_bytes) best = std::move(attempt);
  }
  const int64_t aim = std::max(goal.target_bytes, goal.target_bytes < lower_bound
                                                      ? lower_bound + lower_bound / kSearchGap
                                                      : int64_t{0});
  const SearchGoal search = {.target_bytes = aim,
                             .enough_bytes = std::max(aim, goal.limit_bytes.value_or(0)),
                             .most_comparisons = goal.most_comparisons};
  if (best.extent_bytes <= search.enough_bytes) return best;
  return SearchPlacement(blocks, search, std::move(best));
}

PlacementResult PlaceOnline(const std::vector<PlacementBlock>& blocks, Fit fit) {
  const auto start = [&](size_t i) { return blocks[i].begin; };
  const auto stop = [&](size_t i) { return blocks[i].end; };
  return RunHeap(blocks, SortedBy(blocks, start), fit, start, stop);
}

}  // namespace neap

#include "neap/memory/placement/placement.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "neap/memory/placement/heap.h"
#include "neap/memory/placement/placement_search.h"

namespace neap {
namespace {

// Closer to the lower bound than one in this many, more search does not pay.
constexpr int64_t kGoodEnough = 1000;

using Blocks = std::vector<PlacementBlock>;
using Order = std::vector<size_t>;

// What a heap would do in order of time. `reversed` runs time backwards: the last to die is placed
// first.
PlacementResult PlaceInTime(const Blocks& blocks, Fit fit, bool reversed) {
  const auto start = [&](size_t i) { return reversed ? -blocks[i].end : blocks[i].begin; };
  const auto stop = [&](size_t i) { return reversed ? -blocks[i].begin : blocks[i].end; };
  Order arrivals(blocks.size());
  std::iota(arrivals.begin(), arrivals.end(), size_t{0});
  Order departures = arrivals;
  // Of those that come together, the longest-lived and largest first: they sink to the bottom.
  std::stable_sort(arrivals.begin(), arrivals.end(), [&](size_t a, size_t b) {
    return std::make_tuple(start(a), -stop(a), -blocks[a].bytes) <
           std::make_tuple(start(b), -stop(b), -blocks[b].bytes);
  });
  std::stable_sort(departures.begin(), departures.end(),
                   [&](size_t a, size_t b) { return stop(a) < stop(b); });

  PlacementResult result = {.offsets = std::vector<int64_t>(blocks.size(), 0), .extent_bytes = 0};
  Heap heap(std::numeric_limits<int64_t>::max(), fit);
  auto departure = departures.begin();
  for (size_t i : arrivals) {
    for (; departure != departures.end() && stop(*departure) <= start(i); ++departure) {
      heap.Free(static_cast<AllocationId>(*departure))
          .IgnoreError();  // blocks without a lifetime were never placed
    }
    if (start(i) == stop(i)) continue;
    const Region region = heap.Allocate(static_cast<AllocationId>(i), blocks[i].bytes).value();
    result.offsets[i] = region.offset;
    result.extent_bytes = std::max(result.extent_bytes, region.end());
  }
  return result;
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
  const int64_t enough = std::max(lower_bound, goal.target_bytes);
  PlacementResult best = PlaceInTime(blocks, Fit::kFirstFit, false);
  for (const auto& [fit, reversed] : {std::pair{Fit::kFirstFit, true},
                                      {Fit::kExactFitFirstFit, false},
                                      {Fit::kExactFitFirstFit, true}}) {
    if (best.extent_bytes <= enough) return best;
    PlacementResult attempt = PlaceInTime(blocks, fit, reversed);
    if (attempt.extent_bytes < best.extent_bytes) best = std::move(attempt);
  }
  const int64_t aim = std::max(goal.target_bytes, goal.target_bytes < lower_bound
                                                      ? lower_bound + lower_bound / kGoodEnough
                                                      : int64_t{0});
  if (best.extent_bytes <= aim) return best;
  return SearchPlacement(blocks, aim, goal.most_comparisons, std::move(best));
}

}  // namespace neap

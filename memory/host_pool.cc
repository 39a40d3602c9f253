#include "neap/memory/host_pool.h"

#include <algorithm>
#include <utility>

#include "neap/core/units.h"
#include "neap/memory/placement.h"

namespace neap {
namespace {

// Host memory is plentiful: a gap of one part in so many is not worth a search.
constexpr int64_t kGoodEnough = 50;

// From the offload at `begin` to one past the prefetch that reads it last (or the end of what may).
struct Copy {
  TensorId tensor;
  int begin = 0;
  int end = 0;
  bool is_read = false;  // by a prefetch at end - 1
};

std::vector<Copy> FindCopies(const Plan& plan) {
  std::vector<Copy> copies;
  std::vector<std::optional<size_t>> open(plan.tensors.size());
  for (size_t i = 0; i < plan.actions.size(); ++i) {
    const int at = static_cast<int>(i);
    if (const auto* offload = std::get_if<OffloadAction>(&plan.actions[i])) {
      std::optional<size_t>& copy = open[offload->tensor.index()];
      if (copy.has_value() && !copies[*copy].is_read) copies[*copy].end = at;
      copy = copies.size();
      copies.push_back({.tensor = offload->tensor, .begin = at, .end = at});
      copies.back().end = static_cast<int>(plan.actions.size());
    } else if (const auto* prefetch = std::get_if<PrefetchAction>(&plan.actions[i])) {
      Copy& copy = copies[*open[prefetch->tensor.index()]];
      copy.end = at + 1;
      copy.is_read = true;
    }
  }
  return copies;
}

std::vector<PlacementBlock> BlocksOf(const Plan& plan, const std::vector<Copy>& copies) {
  std::vector<PlacementBlock> blocks;
  blocks.reserve(copies.size());
  for (const Copy& copy : copies) {
    const int64_t bytes = RoundUp(plan.tensors[copy.tensor.index()].bytes, kBlockBytes);
    blocks.push_back({.bytes = bytes, .begin = copy.begin, .end = copy.end});
  }
  return blocks;
}

}  // namespace

HostLayout LayOutHostPool(const Plan& plan) {
  const std::vector<Copy> copies = FindCopies(plan);
  const std::vector<PlacementBlock> blocks = BlocksOf(plan, copies);
  const int64_t bound = PlacementLowerBound(blocks);
  const PlacementResult placed =
      PlaceOffline(blocks, {.target_bytes = bound + bound / kGoodEnough});
  HostLayout layout = {.bytes = placed.extent_bytes};
  for (size_t i = 0; i < copies.size(); ++i) {
    HostPlace place = {
        .action = copies[i].begin, .tensor = copies[i].tensor, .offset = placed.offsets[i]};
    for (size_t j = 0; j < i; ++j) {
      const bool overlaps = placed.offsets[j] < place.offset + blocks[i].bytes &&
                            place.offset < placed.offsets[j] + blocks[j].bytes;
      if (!overlaps || !copies[j].is_read || copies[j].end > copies[i].begin) continue;
      place.wait_for = std::max<int64_t>(place.wait_for.value_or(0), copies[j].end - 1);
    }
    layout.places.push_back(place);
  }
  return layout;
}

int64_t HostPeakBytes(const Plan& plan) {
  return PlacementLowerBound(BlocksOf(plan, FindCopies(plan)));
}

}  // namespace neap

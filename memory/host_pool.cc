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
      if (plan.tensors[offload->tensor.index()].on_host) continue;
      std::optional<size_t>& copy = open[offload->tensor.index()];
      if (copy.has_value() && !copies[*copy].is_read) copies[*copy].end = at;
      copy = copies.size();
      copies.push_back({.tensor = offload->tensor, .begin = at, .end = at});
      copies.back().end = static_cast<int>(plan.actions.size());
    } else if (const auto* prefetch = std::get_if<PrefetchAction>(&plan.actions[i])) {
      if (plan.tensors[prefetch->tensor.index()].on_host) continue;
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

HostHomes LayOutHostHomes(const Plan& plan) {
  HostHomes homes = {.offsets = std::vector<int64_t>(plan.tensors.size(), 0)};
  for (const PlanTensor& tensor : plan.tensors) {
    if (!tensor.on_host) continue;
    homes.offsets[tensor.id.index()] = homes.bytes;
    homes.bytes += RoundUp(tensor.bytes, kBlockBytes);
  }
  return homes;
}

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
  return LayOutHostHomes(plan).bytes + PlacementLowerBound(BlocksOf(plan, FindCopies(plan)));
}

}  // namespace neap

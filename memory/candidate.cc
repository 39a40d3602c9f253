#include "neap/memory/candidate.h"

#include <vector>

#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/memory/placement/heap.h"
#include "neap/memory/placement/offline_allocator.h"

namespace neap {
namespace {

// The blocks that an offline placement has to place: one for each buffer, one for each workspace
// that must be.
struct BlockList {
  std::vector<AllocationId> ids;
  std::vector<PlacementBlock> blocks;
};

BlockList TransientBlocks(const Program& program, const Draft& draft) {
  BlockList list;
  const auto add = [&list](AllocationId id, int64_t bytes, int begin, int end) {
    list.ids.push_back(id);
    list.blocks.push_back({.bytes = RoundUp(bytes, kBlockBytes), .begin = begin, .end = end});
  };
  const Buffers buffers = FindBuffers(draft.residency);
  for (size_t i = 0; i < draft.residency.stays.size(); ++i) {
    const Stay& stay = draft.residency.stays[i];
    if (buffers.first[i] != i) continue;
    add(static_cast<AllocationId>(i), program.tensor(stay.tensor).spec.size_bytes(), stay.begin,
        buffers.end[i]);
  }
  for (size_t i = 0; i < draft.runs.size(); ++i) {
    const int position = static_cast<int>(i);
    const int64_t bytes = draft.workspaces[i];
    if (bytes > 0) add(WorkspaceId(position), bytes, position, position + 1);
  }
  return list;
}

absl::StatusOr<WalkResult> Walk(const Program& program, const Draft& draft,
                                const EngineTable& engines, std::string_view placement,
                                int64_t budget_bytes, const std::vector<int64_t>& workspaces) {
  const int64_t capacity = budget_bytes - PersistentBytes(program, draft.residency.travels);
  if (placement == "offline") {
    OfflineAllocator allocator(capacity, draft.places);
    return WalkRuns(program, draft.runs, draft.residency, engines, workspaces, allocator);
  }
  Heap heap(capacity, placement == "first-fit" ? Fit::kFirstFit : Fit::kExactFitFirstFit);
  return WalkRuns(program, draft.runs, draft.residency, engines, workspaces, heap);
}

}  // namespace

absl::StatusOr<Draft> PlaceDraft(const Program& program, Draft draft, const EngineTable& engines,
                                 std::string_view placement, const PlacementGoal& goal) {
  const int64_t persistent_bytes = PersistentBytes(program, draft.residency.travels);
  const BlockList list = TransientBlocks(program, draft);
  draft.lower_bound_bytes = persistent_bytes + PlacementLowerBound(list.blocks);
  if (placement == "offline") {
    const PlacementResult placed = PlaceOffline(list.blocks, goal);
    for (size_t i = 0; i < list.ids.size(); ++i)
      draft.places[list.ids[i]] = {placed.offsets[i], list.blocks[i].bytes};
  }
  ASSIGN_OR_RETURN(const WalkResult walk,
                   Walk(program, draft, engines, placement, kUnlimited, draft.workspaces));
  draft.arena_bytes = walk.peak_bytes;
  draft.busiest_step = walk.busiest_step;
  draft.busiest_bytes = walk.busiest_bytes;
  return draft;
}

absl::StatusOr<WalkResult> WalkDraft(const Program& program, const Draft& draft,
                                     const EngineTable& engines, std::string_view placement,
                                     int64_t budget_bytes) {
  return Walk(program, draft, engines, placement, budget_bytes, {});
}

}  // namespace neap

#include "neap/memory/search/candidate.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/core/program/homes.h"
#include "neap/memory/placement/heap.h"
#include "neap/memory/placement/offline_allocator.h"

namespace neap {
namespace {

// The blocks that have to be placed: one for each buffer, and one for each workspace.
struct BlockList {
  std::vector<AllocationId> ids;
  std::vector<PlacementBlock> blocks;
};

BlockList TransientBlocks(const Program& program, const Candidate& candidate) {
  BlockList list;
  const auto add = [&list](AllocationId id, int64_t bytes, int begin, int end) {
    list.ids.push_back(id);
    list.blocks.push_back({.bytes = RoundUp(bytes, kBlockBytes), .begin = begin, .end = end});
  };
  const Buffers buffers = FindBuffers(candidate.residency);
  for (size_t i = 0; i < candidate.residency.stays.size(); ++i) {
    const Stay& stay = candidate.residency.stays[i];
    if (buffers.first[i] != i) continue;
    add(static_cast<AllocationId>(i), program.tensor(stay.tensor).spec.size_bytes(), stay.begin,
        buffers.end[i]);
  }
  for (size_t i = 0; i < candidate.runs.size(); ++i) {
    const int position = static_cast<int>(i);
    const int64_t bytes = candidate.workspaces[i];
    if (bytes > 0) add(WorkspaceId(position), bytes, position, position + 1);
  }
  return list;
}

Fit FitOf(PlacementMethod placement) {
  return placement == PlacementMethod::kFirstFit ? Fit::kFirstFit : Fit::kExactFitFirstFit;
}

// Hands out bytes that were never handed out before.
class ApartAllocator final : public Allocator {
 public:
  absl::StatusOr<Region> Allocate(AllocationId /*id*/, int64_t bytes) override {
    const Region region = {end_, RoundUp(bytes, kBlockBytes)};
    end_ = region.end();
    return region;
  }
  absl::Status Free(AllocationId /*id*/) override { return absl::OkStatus(); }
  int64_t LargestFreeBytes() const override { return std::numeric_limits<int64_t>::max(); }

 private:
  int64_t end_ = 0;
};

void FindBusiestStep(int64_t persistent_bytes, Candidate& candidate) {
  for (size_t i = 0; i < candidate.runs.size(); ++i) {
    const int64_t bytes = persistent_bytes + candidate.residency.usage[i].bytes;
    if (bytes <= candidate.busiest_bytes) continue;
    candidate.busiest_bytes = bytes;
    candidate.busiest_step = candidate.runs[i].step;
  }
}

}  // namespace

bool Moves(const Candidate& candidate) {
  return std::any_of(candidate.residency.stays.begin(), candidate.residency.stays.end(),
                     [](const Stay& stay) { return stay.offload_at.has_value(); });
}

bool Copies(const Candidate& candidate) {
  return std::any_of(candidate.residency.stays.begin(), candidate.residency.stays.end(),
                     [](const Stay& stay) { return stay.offload_at.has_value() || stay.fetched; });
}

int64_t CopiedBytes(const Program& program, const Candidate& candidate) {
  int64_t bytes = HostBytes(program);
  for (const Stay& stay : candidate.residency.stays) {
    if (stay.offload_at.has_value())
      bytes += RoundUp(program.tensor(stay.tensor).spec.size_bytes(), kBlockBytes);
  }
  return bytes;
}

Candidate PlaceCandidate(const Program& program, Candidate candidate, PlacementMethod placement,
                         const PlacementGoal& goal) {
  const int64_t persistent_bytes = PersistentBytes(program);
  const BlockList list = TransientBlocks(program, candidate);
  const bool offline = placement == PlacementMethod::kOffline;
  const PlacementResult placed =
      offline ? PlaceOffline(list.blocks, goal) : PlaceOnline(list.blocks, FitOf(placement));
  for (size_t i = 0; offline && i < list.ids.size(); ++i)
    candidate.places[list.ids[i]] = {placed.offsets[i], list.blocks[i].bytes};
  candidate.lower_bound_bytes = persistent_bytes + PlacementLowerBound(list.blocks);
  candidate.arena_bytes = persistent_bytes + placed.extent_bytes;
  FindBusiestStep(persistent_bytes, candidate);
  return candidate;
}

Candidate PlaceCandidateAt(const Program& program, Candidate candidate,
                           const std::vector<Region>& places,
                           const std::vector<Region>& workspace_places) {
  const int64_t persistent_bytes = PersistentBytes(program);
  const BlockList list = TransientBlocks(program, candidate);
  int64_t extent_bytes = 0;
  for (const AllocationId id : list.ids) {
    const Region& region = id >= 0 ? places[static_cast<size_t>(id)]
                                   : workspace_places[static_cast<size_t>(WorkspaceId(0) - id)];
    candidate.places[id] = region;
    extent_bytes = std::max(extent_bytes, region.end());
  }
  candidate.lower_bound_bytes = persistent_bytes + PlacementLowerBound(list.blocks);
  candidate.arena_bytes = persistent_bytes + extent_bytes;
  FindBusiestStep(persistent_bytes, candidate);
  return candidate;
}

absl::StatusOr<Candidate> WriteCandidate(const Program& program, Candidate candidate,
                                         const EngineTable& engines, PlacementMethod placement,
                                         int64_t budget_bytes) {
  const int64_t capacity = budget_bytes - PersistentBytes(program);
  if (placement == PlacementMethod::kOffline) {
    OfflineAllocator allocator(capacity, candidate.places);
    ASSIGN_OR_RETURN(candidate.written, WriteActions(program, candidate.runs, candidate.residency,
                                                     engines, allocator));
  } else {
    Heap heap(capacity, FitOf(placement));
    ASSIGN_OR_RETURN(candidate.written,
                     WriteActions(program, candidate.runs, candidate.residency, engines, heap));
  }
  return candidate;
}

WrittenActions WriteApart(const Program& program, const ComputeSequence& runs,
                          const Residency& residency, const EngineTable& engines) {
  ApartAllocator allocator;
  return WriteActions(program, runs, residency, engines, allocator).value();
}

}  // namespace neap

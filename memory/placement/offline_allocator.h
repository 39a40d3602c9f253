// The offline allocator hands out places that were found beforehand (memory/placement/placement.h).
// An allocation without a planned place, or one that is larger than its place (the workspace of a
// faster engine), gets the first hole that is large enough.
//
// Planned places do not overlap each other. But the hole that an unplanned allocation gets may be
// the planned place of a later one, so it must be freed before that one comes. The planner's
// workspaces live for one step.
//
//   OfflineAllocator allocator(8 * kKiB, {{1, Region{2 * kKiB, 2 * kKiB}}});
//   ASSIGN_OR_RETURN(Region known, allocator.Allocate(1, 2 * kKiB));  // [2 KiB, 4 KiB)
//   ASSIGN_OR_RETURN(Region other, allocator.Allocate(9, 1 * kKiB));  // [0, 1 KiB)
//
// *Errors*: those of Allocator, and INTERNAL if a planned place is not free: then the plan is wrong
// or was not followed, and no other place would be right.
#pragma once

#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "neap/memory/placement/allocator.h"
#include "neap/memory/placement/heap.h"

namespace neap {

class OfflineAllocator final : public Allocator {
 public:
  OfflineAllocator(int64_t capacity_bytes, absl::flat_hash_map<AllocationId, Region> places)
      : heap_(capacity_bytes), places_(std::move(places)) {}

  absl::StatusOr<Region> Allocate(AllocationId id, int64_t bytes) override;
  absl::Status Free(AllocationId id) override { return heap_.Free(id); }
  int64_t LargestFreeBytes() const override { return heap_.LargestFreeBytes(); }

 private:
  Heap heap_;
  absl::flat_hash_map<AllocationId, Region> places_;
};

}  // namespace neap

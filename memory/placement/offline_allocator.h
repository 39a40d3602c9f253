// Hands out places that were worked out beforehand (memory/placement/placement.h). Anything else,
// and what has outgrown its place (the workspace of a faster engine), goes to the first hole that
// is large enough now.
//
// Planned places are disjoint among themselves; the hole that something unplanned takes may be
// another's planned place, so whoever takes one must give it back before that other comes. The
// planner's workspaces live for one step.
//
//   OfflineAllocator allocator(8 * kKiB, {{1, Region{2 * kKiB, 2 * kKiB}}});
//   allocator.Allocate(1, 2 * kKiB);    // [2 KiB, 4 KiB), or INTERNAL
//   allocator.Allocate(9, 1 * kKiB);    // [0, 1 KiB)
//
// *Errors*: besides an allocator's, INTERNAL when a planned place is not free: then the plan is
// wrong, or was not followed, and no other place would be right.
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

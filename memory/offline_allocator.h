// Hands out places that were worked out beforehand (memory/placement.h). Anything else, and what is
// larger than planned (the workspace of a faster engine), goes to the first hole that is large
// enough now.
//
// Planned places are disjoint among themselves; the hole that something unplanned takes may be
// another's planned place, so whoever takes one must give it back before that other comes. The
// planner's workspaces live for one step.
#pragma once

#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "neap/memory/allocator.h"
#include "neap/memory/heap.h"

namespace neap {

class OfflineAllocator final : public Allocator {
 public:
  OfflineAllocator(int64_t capacity_bytes, absl::flat_hash_map<AllocationId, int64_t> offsets)
      : heap_(capacity_bytes), offsets_(std::move(offsets)) {}

  absl::StatusOr<Region> Allocate(AllocationId id, int64_t bytes) override;
  absl::Status Free(AllocationId id) override { return heap_.Free(id); }
  int64_t LargestFreeBytes() const override { return heap_.LargestFreeBytes(); }

 private:
  Heap heap_;
  absl::flat_hash_map<AllocationId, int64_t> offsets_;
};

}  // namespace neap

// What the planner asks for bytes: a heap that decides as it goes, or a placement worked out
// beforehand.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "neap/core/base/region.h"

namespace neap {

// Names one allocation from Allocate() to Free(); chosen by the caller.
using AllocationId = int64_t;

// *Errors*: RESOURCE_EXHAUSTED when no hole is large enough; INVALID_ARGUMENT for 0 bytes or less,
// or an id in use; NOT_FOUND from Free for an id that is not.
class Allocator {
 public:
  virtual ~Allocator() = default;
  // A region of `bytes` rounded up to whole blocks, disjoint from all others that are allocated.
  virtual absl::StatusOr<Region> Allocate(AllocationId id, int64_t bytes) = 0;
  virtual absl::Status Free(AllocationId id) = 0;
  // The largest request that would succeed now.
  virtual int64_t LargestFreeBytes() const = 0;
};

}  // namespace neap

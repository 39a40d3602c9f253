// An allocator hands out regions of the arena: a heap that decides when it is asked, or a placement
// that was found beforehand.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "neap/core/base/region.h"

namespace neap {

// Names an allocation from Allocate() to Free(). The caller chooses it.
using AllocationId = int64_t;

// *Errors*: RESOURCE_EXHAUSTED if no hole is large enough; INVALID_ARGUMENT for 0 bytes or less, or
// for an id that is in use; NOT_FOUND from Free for an id that is not.
class Allocator {
 public:
  virtual ~Allocator() = default;
  // Returns a region of `bytes`, rounded up to whole blocks, that overlaps with no other allocated
  // region.
  virtual absl::StatusOr<Region> Allocate(AllocationId id, int64_t bytes) = 0;
  virtual absl::Status Free(AllocationId id) = 0;
  // The largest request that would succeed now.
  virtual int64_t LargestFreeBytes() const = 0;
};

}  // namespace neap

#include "neap/memory/offline_allocator.h"

namespace neap {

absl::StatusOr<Region> OfflineAllocator::Allocate(AllocationId id, int64_t bytes) {
  if (const auto planned = offsets_.find(id); planned != offsets_.end()) {
    absl::StatusOr<Region> region = heap_.AllocateAt(id, planned->second, bytes);
    if (region.ok() || !absl::IsResourceExhausted(region.status())) return region;
  }
  return heap_.Allocate(id, bytes);
}

}  // namespace neap

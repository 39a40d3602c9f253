#include "neap/memory/placement/offline_allocator.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace neap {

absl::StatusOr<Region> OfflineAllocator::Allocate(AllocationId id, int64_t bytes) {
  const auto planned = places_.find(id);
  if (planned == places_.end()) return heap_.Allocate(id, bytes);
  const Region& place = planned->second;
  absl::StatusOr<Region> region = heap_.AllocateAt(id, place.offset, bytes);
  if (!absl::IsResourceExhausted(region.status())) return region;
  if (bytes > place.bytes) return heap_.Allocate(id, bytes);
  return absl::InternalError(absl::StrCat("the planned place of allocation ", id,
                                          " is not free: ", region.status().message()));
}

}  // namespace neap

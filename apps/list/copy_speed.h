// Measures how fast a device copies to and from pinned host memory, or its peer's memory: in each
// direction alone, and in both at once.
//
// These speeds bound offloading: an iteration cannot be faster than its transfers.
#pragma once

#include "absl/status/statusor.h"
#include "neap/core/device/device.h"

namespace neap::apps {

struct CopySpeed {  // bytes per second
  double out = 0;
  double back = 0;
  double both_ways = 0;  // the sum of both directions, running together
};

// Copies to `there` and back. Takes about a second, and 256 MiB on each side.
absl::StatusOr<CopySpeed> MeasureCopySpeed(Device& device, MemoryKind there);

}  // namespace neap::apps

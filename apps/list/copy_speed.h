// Measures how fast a device copies to and from pinned host memory, or its peer's memory: in each
// direction alone, and in both at once; and how much slower kernels are meanwhile.
//
// These speeds bound offloading: an iteration cannot be faster than its transfers, and the kernels
// that hide them are slowed down.
#pragma once

#include "absl/status/statusor.h"
#include "neap/core/device/device.h"

namespace neap::apps {

struct CopySpeed {
  // Bytes per second.
  double out = 0;
  double back = 0;
  double both_ways = 0;  // the sum of both directions, running together
  // Relative slowdown of copies within the device, which are bound by its memory, while copies run
  // in one direction (the larger of the two) and in both. Most kernels of a network are slowed down
  // less (DeviceDescription::slowdown_by_copies_out and _back).
  double slowdown = 0;
  double slowdown_both_ways = 0;
};

// Copies to `there` and back. Takes some seconds, 384 MiB of the device's memory and 256 MiB there.
absl::StatusOr<CopySpeed> MeasureCopySpeed(Device& device, MemoryKind there);

}  // namespace neap::apps

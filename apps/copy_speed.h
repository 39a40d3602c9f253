// How fast a device copies to and from pinned host memory: one way at a time, and both at once.
//
// The bound for whoever offloads: an iteration cannot be faster than its transfers.
#pragma once

#include "absl/status/statusor.h"
#include "neap/core/device/device.h"

namespace neap::apps {

struct CopySpeed {  // bytes per second
  double to_host = 0;
  double to_device = 0;
  double both_ways = 0;  // the sum of both directions, running together
};

// Takes about a second, and 256 MiB of device and of pinned host memory.
absl::StatusOr<CopySpeed> MeasureCopySpeed(Device& device);

}  // namespace neap::apps

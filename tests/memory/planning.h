// What tests of plans for an H200 share.
#pragma once

#include "neap/layers/devices/device_description.h"
#include "neap/memory/planner.h"

namespace neap::testing {

inline DeviceDescription H200() { return DescribedDevice("h200").value(); }

// With the batch's copy: bytes for the incoming batch may be worth a slower plan.
inline double IterationMs(const PlanResult& result) {
  return result.plan.predicted_ms + result.stats.batch_copy_ms;
}

}  // namespace neap::testing

// What the CPU device says of itself, from /proc and cgroup files. Rates are nominal, never
// measured: opening a device must not cost seconds. They serve to compare plans on one machine, not
// to predict times.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "neap/core/device/device.h"

namespace neap {

// Physical memory or the cgroup's limit, whichever is less. Per processor this process may run
// on: 2.5 GHz times 16 fp32 operations (one 8-wide fused multiply-add a cycle). 20 GB/s memory, 8
// GB/s copies between two places in it, 16 GB/s where one of them stands for a peer's memory.
DeviceDescription DescribeCpu();

// The first "model name" of /proc/cpuinfo; "CPU" where there is none (not every architecture has
// it).
std::string CpuModelName(std::string_view cpuinfo);

// Bytes of this process in physical memory. Errors: INTERNAL when /proc/self/statm cannot be read.
absl::StatusOr<int64_t> ResidentBytes();

}  // namespace neap

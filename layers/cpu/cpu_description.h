// The CPU device's description, from /proc and cgroup files. Rates are nominal, because measuring
// them would make opening a device take seconds. They serve to compare plans on one machine, not to
// predict times.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "neap/core/device/device.h"

namespace neap {

// Memory: physical memory or the cgroup's limit, whichever is less. Arithmetic: 2.5 GHz times 16
// fp32 operations (one 8-wide fused multiply-add a cycle) for each processor that this process may
// use. Memory bandwidth: 20 GB/s. Copies: 8 GB/s, and 16 GB/s to and from memory that stands for a
// peer's.
DeviceDescription DescribeCpu();

// The first "model name" of /proc/cpuinfo, or "CPU" on architectures that have none.
std::string CpuModelName(std::string_view cpuinfo);

// Bytes of this process in physical memory. Errors: INTERNAL when /proc/self/statm cannot be read.
absl::StatusOr<int64_t> ResidentBytes();

}  // namespace neap

// The CPU device's description, from /proc and cgroup files. Rates are nominal, because measuring
// them would make opening a device take seconds, and depend on what else runs. The cost model's
// coefficients for CPUs are relative to them (core/plan/cost_model.h), so they tell CPUs apart only
// by what a kernel's time depends on most: cores and the width of their arithmetic.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "neap/core/device/device.h"

namespace neap {

// Memory: physical memory or the cgroup's limit, whichever is less. Arithmetic, for oneDNN, which
// uses all processors: 2.5 GHz, as servers have with all cores busy, times FlopsPerCycle(), for
// each processor that this process may use. Memory bandwidth: 20 GB/s, about what one core gets,
// because neap's own loops, which are what memory bounds, run on one. Copies: 8 GB/s, and 16 GB/s
// to and from memory that stands for a peer's.
DeviceDescription DescribeCpu();

// fp32 operations of one processor: two fused multiply-adds of as many numbers as oneDNN's kernels
// take at once. 64 with AVX-512, 32 with AVX2; otherwise 16, as of 4 numbers.
double FlopsPerCycle();

// The first "model name" of /proc/cpuinfo, or "CPU" on architectures that have none.
std::string CpuModelName(std::string_view cpuinfo);

// Bytes of this process in physical memory. Errors: INTERNAL when /proc/self/statm cannot be read.
absl::StatusOr<int64_t> ResidentBytes();

}  // namespace neap

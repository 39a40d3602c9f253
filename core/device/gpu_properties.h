// A GPU as its driver describes it. From these numbers a library of kernels knows which engines it
// has for the GPU, and a planner about how fast they are (layers/devices/nominal_gpu.h).
//
//   const GpuProperties l4 = WithLimits({.compute_capability = 89,
//                                        .multiprocessors = 58,
//                                        .clock_khz = 2'040'000,
//                                        .memory_clock_khz = 6'251'000,
//                                        .memory_bus_bits = 192,
//                                        .l2_cache_bytes = 48 * kMiB});
//   l4.threads_per_multiprocessor;  // 1536
#pragma once

#include <cstdint>

namespace neap {

// The fields have the names of cudaDeviceProp, with units.
struct GpuProperties {
  int64_t compute_capability = 0;  // ten times the version: 89 for 8.9
  int64_t multiprocessors = 0;
  int64_t clock_khz = 0;         // the highest of the multiprocessors
  int64_t memory_clock_khz = 0;  // a line of the bus transfers two bits per clock
  int64_t memory_bus_bits = 0;
  int64_t l2_cache_bytes = 0;
  // Limits, which depend on the compute capability alone.
  int64_t threads_per_multiprocessor = 0;
  int64_t blocks_per_multiprocessor = 0;
  int64_t shared_memory_per_block_bytes = 0;           // of a kernel that asks for more than 48 KiB
  int64_t reserved_shared_memory_per_block_bytes = 0;  // by the driver

  friend bool operator==(const GpuProperties&, const GpuProperties&) = default;
};

// The same with the limits of its compute capability, or of the next lower one that is known
// (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability").
GpuProperties WithLimits(GpuProperties gpu);

}  // namespace neap

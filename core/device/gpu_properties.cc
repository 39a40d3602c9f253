#include "neap/core/device/gpu_properties.h"

#include <algorithm>
#include <array>

#include "neap/core/base/units.h"

namespace neap {
namespace {

struct Limits {
  int64_t compute_capability;
  int64_t threads, blocks;
  int64_t shared_memory_kib;
  int64_t reserved_kib;
};

// By ascending compute capability.
constexpr std::array<Limits, 10> kLimits = {{{35, 2048, 16, 48, 0},
                                             {60, 2048, 32, 48, 0},
                                             {70, 2048, 32, 96, 0},
                                             {75, 1024, 16, 64, 0},
                                             {80, 2048, 32, 163, 1},
                                             {86, 1536, 16, 99, 1},
                                             {87, 1536, 16, 163, 1},
                                             {89, 1536, 24, 99, 1},
                                             {90, 2048, 32, 227, 1},
                                             {120, 1536, 24, 99, 1}}};

}  // namespace

GpuProperties WithLimits(GpuProperties gpu) {
  const auto after = std::upper_bound(kLimits.begin(), kLimits.end(), gpu.compute_capability,
                                      [](int64_t capability, const Limits& limits) {
                                        return capability < limits.compute_capability;
                                      });
  const Limits& limits = after == kLimits.begin() ? kLimits.front() : *(after - 1);
  gpu.threads_per_multiprocessor = limits.threads;
  gpu.blocks_per_multiprocessor = limits.blocks;
  gpu.shared_memory_per_block_bytes = limits.shared_memory_kib * kKiB;
  gpu.reserved_shared_memory_per_block_bytes = limits.reserved_kib * kKiB;
  return gpu;
}

}  // namespace neap

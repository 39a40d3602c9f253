// The examples in the headers of core/device/, which must compile. See scripts/check_examples.py.
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/core/device/communicator.h"
#include "neap/core/device/device.h"
#include "neap/core/plan/plan.h"

namespace neap::header_examples::device {

// core/device/communicator.h
absl::Status SumOverRanks(Device& device, Communicator& communicator, const Event& computed,
                          float* conv1_grad, float* bn1_grad) {
  std::vector<ReduceBuffer> bucket = {{.data = conv1_grad, .count = 432},
                                      {.data = bn1_grad, .count = 32}};
  RETURN_IF_ERROR(device.Wait(Stream::kCollective, computed));
  RETURN_IF_ERROR(communicator.AllReduce(bucket));
  ASSIGN_OR_RETURN(const Event summed, device.Record(Stream::kCollective));
  return absl::OkStatus();
}

// core/device/device.h
absl::Status CopyAndWait(Device& device, const Plan& plan, const Buffer& pinned, int64_t bytes) {
  ASSIGN_OR_RETURN(Buffer arena, device.Allocate(MemoryKind::kDevice, plan.arena_bytes));
  RETURN_IF_ERROR(device.Copy(Stream::kH2d, arena.data(), pinned.data(), bytes));
  ASSIGN_OR_RETURN(Event arrived, device.Record(Stream::kH2d));
  RETURN_IF_ERROR(device.Wait(Stream::kCompute, arrived));  // later kernels see the bytes
  return absl::OkStatus();
}

// core/device/gpu_properties.h
void DescribeAnL4() {
  const GpuProperties l4 = WithLimits({.compute_capability = 89,
                                       .multiprocessors = 58,
                                       .clock_khz = 2'040'000,
                                       .memory_clock_khz = 6'251'000,
                                       .memory_bus_bits = 192,
                                       .l2_cache_bytes = 48 * kMiB});
  l4.threads_per_multiprocessor;  // 1536
}

}  // namespace neap::header_examples::device

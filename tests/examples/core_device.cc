// The examples in the headers of core/device/, which must compile. See scripts/check_examples.py.
#include <cstdint>

#include "absl/status/status.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/device/device.h"
#include "neap/core/device/device_description.h"
#include "neap/core/plan/plan.h"

namespace neap::header_examples::device {

// core/device/device.h
absl::Status CopyAndWait(Device& device, const Plan& plan, const Buffer& pinned, int64_t bytes) {
  ASSIGN_OR_RETURN(Buffer arena, device.Allocate(MemoryKind::kDevice, plan.arena_bytes));
  RETURN_IF_ERROR(device.Copy(Stream::kH2d, arena.data(), pinned.data(), bytes));
  ASSIGN_OR_RETURN(Event arrived, device.Record(Stream::kH2d));
  RETURN_IF_ERROR(device.Wait(Stream::kCompute, arrived));  // later kernels see the bytes
  return absl::OkStatus();
}

// core/device/device_description.h
absl::Status Describe() {
  ASSIGN_OR_RETURN(DeviceDescription h200, DescribedDevice("h200"));
  h200.memory_bytes;  // 150109880320
  return absl::OkStatus();
}

}  // namespace neap::header_examples::device

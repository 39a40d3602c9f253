// The examples in the headers of layers/cuda that include no CUDA, compiled and not run.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/core/program/program.h"
#include "neap/layers/cuda/cuda_backend.h"
#include "neap/layers/cuda/cuda_device.h"
#include "neap/layers/cuda/described_catalog.h"
#include "neap/layers/devices/device_description.h"
#include "neap/memory/planner.h"

namespace neap::examples {

// layers/cuda/cuda_backend.h
absl::Status DescribeForCudnn() {
  ASSIGN_OR_RETURN(const DeviceDescription h200, DescribedDevice("h200"));
  ASSIGN_OR_RETURN(const std::string properties, CudnnDeviceProperties(h200));
  ASSIGN_OR_RETURN(auto catalog, MakeCudnnCatalog(properties));  // to plan for an absent GPU
  return absl::OkStatus();
}

// layers/cuda/cuda_device.h
absl::Status MeasureLibraryBytes() {
  ASSIGN_OR_RETURN(std::unique_ptr<CudaDevice> device, CudaDevice::Open(0));
  ASSIGN_OR_RETURN(Buffer arena, device->Allocate(MemoryKind::kDevice, 12 * kGiB));
  ASSIGN_OR_RETURN(std::optional<int64_t> libraries, device->LibraryBytes());
  // *device->UsedBytes() == *libraries + RoundUp(12 * kGiB, kPageBytes)
  return absl::OkStatus();
}

// layers/cuda/cuda_device.h
absl::Status AllocateOnAPeer() {
  ASSIGN_OR_RETURN(std::unique_ptr<CudaDevice> device, CudaDevice::Open(0, {.peer = 1}));
  ASSIGN_OR_RETURN(Buffer lent, device->Allocate(MemoryKind::kPeer, 40 * kGiB));
  return absl::OkStatus();
}

// layers/cuda/described_catalog.h
absl::Status PlanForAnAbsentGpu(const Program& program, const PlannerOptions& options) {
  ASSIGN_OR_RETURN(const DeviceDescription h200, DescribedDevice("h200"));
  ASSIGN_OR_RETURN(const std::unique_ptr<EngineCatalog> catalog, DescribedCatalog("h200"));
  ASSIGN_OR_RETURN(const PlanResult result, MakePlan(program, options, h200, *catalog));
  return absl::OkStatus();
}

}  // namespace neap::examples

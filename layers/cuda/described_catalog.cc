#include "neap/layers/cuda/described_catalog.h"

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/catalog/default_catalog.h"
#include "neap/layers/cuda/cuda_backend.h"
#include "neap/layers/devices/device_description.h"

namespace neap {
namespace {

// cuDNN 9 for CUDA 13 lists some engines for older GPUs, but has no kernels for them.
constexpr int64_t kOldestForCudnn = 75;

std::string Version(int64_t compute_capability) {
  return absl::StrCat(compute_capability / 10, ".", compute_capability % 10);
}

}  // namespace

absl::Status ListsEnginesOf(const DeviceDescription& device) {
  if (!device.gpu.has_value()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the description of ", device.name, " has no properties of a GPU"));
  }
  if (device.gpu->compute_capability < kOldestForCudnn) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "cuDNN supports GPUs from compute capability %s, and %s has %s", Version(kOldestForCudnn),
        device.name, Version(device.gpu->compute_capability)));
  }
  return LoadCudaLibraries();
}

absl::StatusOr<std::unique_ptr<EngineCatalog>> DescribedCatalog(const DeviceDescription& device,
                                                                std::vector<CustomKernel> custom,
                                                                const EngineOptions& options) {
  RETURN_IF_ERROR(CheckCustomKernels(custom));
  if (!ListsEnginesOf(device).ok()) return std::make_unique<DefaultCatalog>(std::move(custom));
  ASSIGN_OR_RETURN(const std::string properties, CudnnDeviceProperties(device));
  return MakeCudnnCatalog(properties, std::move(custom), options);
}

absl::StatusOr<std::unique_ptr<EngineCatalog>> DescribedCatalog(std::string_view device,
                                                                std::vector<CustomKernel> custom,
                                                                const EngineOptions& options) {
  ASSIGN_OR_RETURN(const DeviceDescription description, DescribedDevice(device));
  return DescribedCatalog(description, std::move(custom), options);
}

}  // namespace neap

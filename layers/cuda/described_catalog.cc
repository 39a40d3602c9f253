#include "neap/layers/cuda/described_catalog.h"

#include <utility>

#include "neap/core/base/status_macros.h"
#include "neap/core/device/device_description.h"
#include "neap/layers/catalog/default_catalog.h"
#include "neap/layers/cuda/cuda_backend.h"

namespace neap {

absl::StatusOr<std::unique_ptr<EngineCatalog>> DescribedCatalog(std::string_view device,
                                                                std::vector<CustomKernel> custom,
                                                                const EngineOptions& options) {
  RETURN_IF_ERROR(DescribedDevice(device).status());
  RETURN_IF_ERROR(CheckCustomKernels(custom));
  const absl::StatusOr<std::string> properties = CudnnDeviceProperties(device);
  if (!properties.ok() || !LoadCudaLibraries().ok())
    return std::make_unique<DefaultCatalog>(std::move(custom));
  return MakeCudnnCatalog(*properties, std::move(custom), options);
}

}  // namespace neap

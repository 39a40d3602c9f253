#include "neap/layers/cuda/described_catalog.h"

#include "neap/core/base/status_macros.h"
#include "neap/core/device/device_description.h"
#include "neap/layers/catalog/default_catalog.h"
#include "neap/layers/cuda/cuda_backend.h"

namespace neap {

absl::StatusOr<std::unique_ptr<EngineCatalog>> DescribedCatalog(std::string_view device) {
  RETURN_IF_ERROR(DescribedDevice(device).status());
  const absl::StatusOr<std::string> properties = CudnnDeviceProperties(device);
  if (!properties.ok()) return std::make_unique<DefaultCatalog>();
  absl::StatusOr<std::unique_ptr<EngineCatalog>> catalog = MakeCudnnCatalog(*properties);
  if (absl::IsUnimplemented(catalog.status())) return std::make_unique<DefaultCatalog>();
  return catalog;
}

}  // namespace neap

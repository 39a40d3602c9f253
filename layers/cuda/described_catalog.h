// The engines of a device that is not present, to plan for an H200 without one, as `neap plan
// --device h200` does.
//
// Only cuDNN's heuristics know a GPU's engines, and they need only its description. In a build
// without CUDA, where cuDNN and cuBLASLt are not installed, and for a GPU that cuDNN no longer
// supports, every step has one engine without workspace (layers/catalog/default_catalog.h), and a
// plan shows the tensors but no workspaces.
//
//   ASSIGN_OR_RETURN(const DeviceDescription h200, DescribedDevice("h200"));
//   ASSIGN_OR_RETURN(const std::unique_ptr<EngineCatalog> catalog, DescribedCatalog("h200"));
//   ASSIGN_OR_RETURN(const PlanResult result, MakePlan(program, options, h200, *catalog));
//
// The catalog of a device that is present is its backend: MakePlan(..., device.backend()).
//
// A network with custom layers needs their kernels for planning too: none of them runs, but the
// plan needs their engines and workspaces (layers/catalog/custom_kernel.h). `options` are those
// with which the device will be opened.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/core/device/device.h"
#include "neap/core/step/kernel.h"
#include "neap/layers/catalog/custom_kernel.h"
#include "neap/layers/catalog/engine_options.h"

namespace neap {

// Errors: INVALID_ARGUMENT for kernels that CheckCustomKernels() refuses, or for a description that
// cuDNN refuses.
absl::StatusOr<std::unique_ptr<EngineCatalog>> DescribedCatalog(
    const DeviceDescription& device, std::vector<CustomKernel> custom = {},
    const EngineOptions& options = {});

// The same for one of DescribedDeviceNames(). Errors: also NOT_FOUND for any other name.
absl::StatusOr<std::unique_ptr<EngineCatalog>> DescribedCatalog(
    std::string_view device, std::vector<CustomKernel> custom = {},
    const EngineOptions& options = {});

// Whether DescribedCatalog() lists the engines of the device. Errors, which say why it has
// placeholders instead: FAILED_PRECONDITION if the description lacks the properties of a GPU, or
// cuDNN does not support it; otherwise those of LoadCudaLibraries().
absl::Status ListsEnginesOf(const DeviceDescription& device);

// Loads what DescribedCatalog() needs to list a GPU's engines. Errors: UNIMPLEMENTED in a build
// without CUDA; NOT_FOUND if cuDNN or cuBLASLt is not installed, or too old.
absl::Status LoadCudaLibraries();

}  // namespace neap

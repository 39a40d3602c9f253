// The engines of a device that is not here, so that a program can plan for an H200 without one, as
// `neap plan --device h200` does.
//
// What engines a GPU has is known to cuDNN's heuristics alone, which ask for no GPU but for a
// description of it. A build without cuDNN has nobody to ask: there every step has one engine,
// without workspace (layers/catalog/default_catalog.h), and a plan shows the tensors but no
// workspaces.
//
//   ASSIGN_OR_RETURN(const DeviceDescription h200, DescribedDevice("h200"));
//   ASSIGN_OR_RETURN(const std::unique_ptr<EngineCatalog> catalog, DescribedCatalog("h200"));
//   ASSIGN_OR_RETURN(const PlanResult result, MakePlan(program, options, h200, *catalog));
//
// The catalog of a device that is here is its backend: MakePlan(..., device.backend()).
//
// A network with layers of the program's own needs their kernels here too, though none of them
// runs: what counts is that they are there, and their workspace (layers/catalog/custom_kernel.h).
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/step/kernel.h"
#include "neap/layers/catalog/custom_kernel.h"

namespace neap {

// For the names of DescribedDeviceNames(). Errors: NOT_FOUND for any other; INVALID_ARGUMENT for
// kernels that CheckCustomKernels() refuses.
absl::StatusOr<std::unique_ptr<EngineCatalog>> DescribedCatalog(
    std::string_view device, std::vector<CustomKernel> custom = {});

}  // namespace neap

// The CUDA kernels of every layer, and what can be known of them without a GPU.
//
// Convolutions are cuDNN's (1x1 in fp32 also cuBLAS's), fully connected layers cuBLAS's, the rest
// neap's own. Engines of the libraries are listed as their heuristics rank them; own kernels have
// one engine, "neap". This header includes no CUDA, and exists in builds without it too: there,
// everything returns UNIMPLEMENTED.
//
//   ASSIGN_OR_RETURN(std::string h200, CudnnDeviceProperties("h200"));
//   ASSIGN_OR_RETURN(auto catalog, MakeCudnnCatalog(h200));   // plans for an absent GPU
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/step/kernel.h"
#include "neap/layers/catalog/custom_kernel.h"

namespace neap {

// Kernels run on `compute_stream` (a cudaStream_t) of the device that is current now. *Threads*:
// one at a time; kernels may run on another thread than the one that made them.
// `custom` has the kernels for layers of the program's own. Errors, besides CUDA's: those of
// TableBackend::Create().
absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(void* compute_stream,
                                                         std::vector<CustomKernel> custom = {});

// What MakeCudaBackend would list on a GPU that is not here, from cuDNN's description of it (cuDNN
// >= 9.8). Exactly that for all but convolutions; for those nearly that: cuDNN derives some
// workspaces from occupancy, and lists an engine or two more on the GPU itself. So plan again where
// it runs. Errors: INVALID_ARGUMENT when cuDNN does not accept the description; those of
// TableBackend::Create().
absl::StatusOr<std::unique_ptr<EngineCatalog>> MakeCudnnCatalog(
    std::string_view device_properties_json, std::vector<CustomKernel> custom = {});

// That description, for the devices of core/device/device_description.h. Errors: NOT_FOUND for one
// that has none.
absl::StatusOr<std::string> CudnnDeviceProperties(std::string_view device);

}  // namespace neap

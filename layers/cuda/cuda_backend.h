// The CUDA kernels of all layers, and their engines as far as they are known without a GPU.
//
// Convolutions use cuDNN (1x1 in fp32 also cuBLAS), fully connected layers cuBLAS, all other layers
// neap's own kernels. The libraries' engines are listed in the order of their heuristics; an own
// kernel has one engine, "neap". This header includes no CUDA; in builds without CUDA all functions
// return UNIMPLEMENTED.
//
//   ASSIGN_OR_RETURN(const DeviceDescription h200, DescribedDevice("h200"));
//   ASSIGN_OR_RETURN(const std::string properties, CudnnDeviceProperties(h200));
//   ASSIGN_OR_RETURN(auto catalog, MakeCudnnCatalog(properties));  // to plan for an absent GPU
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/device/device.h"
#include "neap/core/step/kernel.h"
#include "neap/layers/catalog/custom_kernel.h"
#include "neap/layers/catalog/engine_options.h"

namespace neap {

// Kernels run on `compute_stream` (a cudaStream_t) of the device that is current during this call.
// `custom` has the kernels of custom layers. *Threads*: those of TableBackend; kernels may run on
// another thread than the one that made them. Errors: CUDA's, and those of TableBackend::Create();
// NOT_FOUND if cuDNN or cuBLASLt is not installed.
absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(void* compute_stream,
                                                         std::vector<CustomKernel> custom = {},
                                                         const EngineOptions& options = {});

// The engines that MakeCudaBackend would list on a GPU that is not present, from cuDNN's
// description of it (cuDNN >= 9.8). For convolutions the list is only nearly the same: on the GPU
// itself cuDNN derives some workspaces from occupancy, and lists an engine or two more. Therefore
// plan again on the GPU. Errors: INVALID_ARGUMENT if cuDNN does not accept the description;
// NOT_FOUND if cuDNN or cuBLASLt is not installed; those of TableBackend::Create().
absl::StatusOr<std::unique_ptr<EngineCatalog>> MakeCudnnCatalog(
    std::string_view device_properties_json, std::vector<CustomKernel> custom = {},
    const EngineOptions& options = {});

// The description of a GPU as cuDNN would give it there. Errors: FAILED_PRECONDITION if the device
// has no DeviceDescription::gpu.
absl::StatusOr<std::string> CudnnDeviceProperties(const DeviceDescription& device);

}  // namespace neap

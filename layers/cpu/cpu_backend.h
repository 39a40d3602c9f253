// Kernels for the CPU: oneDNN for the layers that it implements, plain loops for the others.
//
// Run() is synchronous: the step is done when it returns. oneDNN uses OpenMP threads; for a given
// number of threads every engine is deterministic. Supported are fp32 and tf32 (computed as fp32),
// NCHW and NHWC.
//
//   std::unique_ptr<Backend> backend = MakeCpuBackend();
//   ASSIGN_OR_RETURN(std::vector<Engine> engines, backend->Engines(signature));
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/step/kernel.h"
#include "neap/layers/catalog/custom_kernel.h"

namespace neap {

std::unique_ptr<Backend> MakeCpuBackend();
// Also takes kernels for custom layers. Errors: those of TableBackend::Create().
absl::StatusOr<std::unique_ptr<Backend>> MakeCpuBackend(std::vector<CustomKernel> custom);

}  // namespace neap

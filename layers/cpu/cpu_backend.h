// Kernels for the CPU: oneDNN where it has the layer, plain loops where it has not.
//
// Run() is synchronous: the step is done when it returns. oneDNN spreads work over OpenMP threads;
// with a given number of threads every engine repeats its bits. fp32 and tf32 (here the same
// arithmetic), NCHW and NHWC.
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
// The same with kernels for layers of the program's own. Errors: those of TableBackend::Create().
absl::StatusOr<std::unique_ptr<Backend>> MakeCpuBackend(std::vector<CustomKernel> custom);

}  // namespace neap

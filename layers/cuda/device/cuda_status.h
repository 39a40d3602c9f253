// Errors of CUDA calls as absl::Status.
//
// CUDA reports a failed kernel at the next call on any stream, so a message has the call that
// returned the error; the name and the text of the error come from the runtime.
#pragma once

#include <cuda_runtime_api.h>

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace neap {

// `call` names the function or kernel, with its shapes if it has any. Does not allocate on success.
inline absl::Status CudaStatus(cudaError_t error, std::string_view call) {
  if (error == cudaSuccess) return absl::OkStatus();
  const std::string message = absl::StrCat(std::string(call), ": ", cudaGetErrorName(error), ": ",
                                           cudaGetErrorString(error));
  if (error == cudaErrorMemoryAllocation) return absl::ResourceExhaustedError(message);
  return absl::InternalError(message);
}

}  // namespace neap

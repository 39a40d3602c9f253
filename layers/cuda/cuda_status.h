// Errors of CUDA calls as absl::Status.
//
// CUDA reports a failed kernel at whatever call comes next, on any stream, so a message must carry
// the call at which it surfaced; the name and the text of the error come from the runtime.
#pragma once

#include <cuda_runtime_api.h>

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace neap {

// `call` names the function or kernel, with the shapes if there are any. Allocates nothing on
// success.
inline absl::Status CudaStatus(cudaError_t error, std::string_view call) {
  if (error == cudaSuccess) return absl::OkStatus();
  const std::string message = absl::StrCat(std::string(call), ": ", cudaGetErrorName(error), ": ",
                                           cudaGetErrorString(error));
  if (error == cudaErrorMemoryAllocation) return absl::ResourceExhaustedError(message);
  return absl::InternalError(message);
}

}  // namespace neap

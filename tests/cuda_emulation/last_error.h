// The error that cudaGetLastError() returns next.
#pragma once

#include <cuda_runtime_api.h>

namespace neap::emulation {

void SetLastError(cudaError_t error);

}  // namespace neap::emulation

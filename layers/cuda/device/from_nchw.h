// FromNchw() (core/base/layout.h) within the memory of a GPU.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "neap/core/base/tensor.h"

namespace neap::cuda {

// Enqueues it. `nchw` has spec.elements() values, `stored` spec.size_bytes() bytes; they must not
// overlap. The type must be a floating-point type.
cudaError_t FromNchw(const float* nchw, const TensorSpec& spec, std::byte* stored,
                     cudaStream_t stream);

}  // namespace neap::cuda

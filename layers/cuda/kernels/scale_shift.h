// scale_shift.cu
#pragma once

#include "neap/layers/cuda/kernels/kernels.h"

namespace neap::kernels {

// y = scale * x + shift, for n elements.
cudaError_t ScaleShift(ConstArray x, Array y, int64_t n, float scale, float shift,
                       cudaStream_t stream);

}  // namespace neap::kernels

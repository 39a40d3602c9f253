// prelu.cu
#pragma once

#include "neap/layers/cuda/kernels/kernels.h"

namespace neap::kernels {

// y = x where x > 0, else slope * x; `slopes` has one for each channel of the shape. A tensor of n
// elements with a single slope has the shape {.inner = n}.
cudaError_t Prelu(const ChannelShape& shape, ConstArray x, const float* slopes, Array y,
                  cudaStream_t stream);
// dslopes = (or, if `add`, +=) the sums of x * dy over the elements of a channel that are not
// positive. dx may be dy.
cudaError_t PreluBackward(const ChannelShape& shape, ConstArray x, ConstArray dy,
                          const float* slopes, Array dx, float* dslopes, bool add,
                          const ReductionMemory& memory, cudaStream_t stream);

}  // namespace neap::kernels

// prelu.cu
#pragma once

#include "neap/layers/cuda/kernels/kernels.h"

namespace neap::kernels {

// y = x where x > 0, else slope * x; `slopes` has one for each channel of the shape. A tensor of n
// elements with a single slope has the shape {.inner = n}, whatever n; any other one has fewer than
// 2^31 elements of a channel.
cudaError_t Prelu(const ChannelShape& shape, ConstArray x, const float* slopes, Array y,
                  cudaStream_t stream);
// dslopes = (or, if `add`, +=) the sums of x * dy over the elements of a channel that are not
// positive. dx may be dy. The scratch memory is PreluScratchBytes().
int64_t PreluScratchBytes(const ChannelShape& shape, Element type);
cudaError_t PreluBackward(const ChannelShape& shape, ConstArray x, ConstArray dy,
                          const float* slopes, Array dx, float* dslopes, bool add,
                          const ReductionMemory& memory, cudaStream_t stream);

}  // namespace neap::kernels

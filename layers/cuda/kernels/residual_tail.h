// residual_tail.cu
#pragma once

#include "neap/layers/cuda/kernels/kernels.h"
#include "neap/layers/cuda/kernels/scale_shift.h"

namespace neap::kernels {

// y = (scale * branch + shift) times the factor of its image, plus bypass; y may be either. What is
// between is rounded to the arrays' type. No image is dropped if the mask has no scalars; the units
// of others are images. With scales of channels, NCHW has fewer than 2^31 positions in a plane.
cudaError_t ResidualTail(const ChannelShape& shape, const ScaleShiftNumbers& numbers,
                         const DropoutMask& mask, ConstArray branch, ConstArray bypass, Array y,
                         cudaStream_t stream);
// dx = scale * (dy times the factor of its image) + shift, with one scale for all; dx may be dy.
cudaError_t ResidualTailGradient(const ChannelShape& shape, const ScaleShiftNumbers& numbers,
                                 const DropoutMask& mask, ConstArray dy, Array dx,
                                 cudaStream_t stream);

// The same with the scales of channels, without a shift, and dscale = (or, if it adds, +=) the sums
// of branch * (dy times the factor) over the channels. The scratch memory of the reduction is
// TailScratchBytes(). Fewer than 2^31 positions.
struct TailScaleGradient {
  float* dscale = nullptr;
  bool adds = false;
};
int64_t TailScratchBytes(const ChannelShape& shape, Element type);
cudaError_t ResidualTailBackward(const ChannelShape& shape, const float* scales,
                                 const DropoutMask& mask, ConstArray branch, ConstArray dy,
                                 Array dx, const TailScaleGradient& gradient,
                                 const ReductionMemory& memory, cudaStream_t stream);

}  // namespace neap::kernels

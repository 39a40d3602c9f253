// scale_shift.cu
#pragma once

#include "neap/layers/cuda/kernels/kernels.h"

namespace neap::kernels {

// One number for each channel, or, where the array is null, the same one for all.
struct ScaleShiftNumbers {
  float scale = 1, shift = 0;
  const float* scales = nullptr;
  const float* shifts = nullptr;
};

// y = scale * x + shift; y may be x.
cudaError_t ScaleShift(const ChannelShape& shape, const ScaleShiftNumbers& numbers, ConstArray x,
                       Array y, cudaStream_t stream);

// Gradients of the numbers that are learned; null for others. An array that `adds` is added to.
struct ScaleShiftGradients {
  float* scales = nullptr;
  float* shifts = nullptr;
  bool adds_scales = false, adds_shifts = false;
};
// dx = scale * dy, the gradients of the scales are the sums of x * dy, and those of the shifts of
// dy. dx may be dy; x is null unless scales are learned.
cudaError_t ScaleShiftBackward(const ChannelShape& shape, const ScaleShiftNumbers& numbers,
                               ConstArray x, ConstArray dy, Array dx,
                               const ScaleShiftGradients& gradients, const ReductionMemory& memory,
                               cudaStream_t stream);

}  // namespace neap::kernels

// softmax.cu
#pragma once

#include "neap/layers/cuda/kernels/kernels.h"
#include "neap/layers/steps/axis_rows.h"

namespace neap::kernels {

// The softmax of each vector, or its logarithm; y may be x.
cudaError_t SoftmaxAxis(const AxisRows& rows, bool logarithm, ConstArray x, Array y,
                        cudaStream_t stream);
// dx may be dy or y.
cudaError_t SoftmaxAxisBackward(const AxisRows& rows, bool logarithm, ConstArray y, ConstArray dy,
                                Array dx, cudaStream_t stream);

}  // namespace neap::kernels

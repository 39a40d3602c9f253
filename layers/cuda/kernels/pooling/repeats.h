// repeats.cu
#pragma once

#include "neap/layers/cuda/kernels/kernels.h"
#include "neap/layers/steps/permutation.h"

namespace neap::kernels {

// The gradient of Permute() of a permutation that repeats elements, and otherwise keeps their
// order: each element of `to` is the sum of those of `from` that are copies of it.
cudaError_t SumRepeats(const Permutation& repeated, ConstArray from, Array to, cudaStream_t stream);

}  // namespace neap::kernels

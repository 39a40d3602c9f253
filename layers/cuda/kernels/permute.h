// permute.cu
#pragma once

#include "neap/layers/cuda/kernels/kernels.h"
#include "neap/layers/steps/permutation.h"

namespace neap::kernels {

cudaError_t Permute(const Permutation& permutation, ConstArray from, Array to, cudaStream_t stream);

}  // namespace neap::kernels

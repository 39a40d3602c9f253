// A sum or a maximum over the threads of a block.
#pragma once

#include "neap/layers/cuda/kernels/device_math.cuh"

namespace neap::kernels {

// The maximum if kMax, otherwise the sum, in a fixed order. All threads of the block, kThreads,
// call it and get the result; it may be called again at once.
template <bool kMax, typename T>
__device__ T BlockReduce(T value) {
  constexpr int kWarps = kThreads / 32;
  __shared__ T warps[kWarps];
  const auto combine = [](T a, T b) {
    if constexpr (kMax) {
      return fmaxf(a, b);
    } else {
      return a + b;
    }
  };
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2)
    value = combine(value, __shfl_xor_sync(~0U, value, offset));
  __syncthreads();
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
  __syncthreads();
  value = warps[0];
  for (int w = 1; w < kWarps; ++w) value = combine(value, warps[w]);
  return value;
}

}  // namespace neap::kernels

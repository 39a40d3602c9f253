// The cosines and sines of rotary positions, in float64, because the angles of late positions are
// large.
#include <cmath>

#include "neap/layers/cuda/kernels/attention/attention.h"
#include "neap/layers/cuda/kernels/device_math.cuh"

namespace neap::kernels {
namespace {

__global__ void __launch_bounds__(kThreads)
    RotaryKernel(float2* turns, int64_t count, int pairs, double base) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= count) return;
  const double step = pow(base, -static_cast<double>(i % pairs) / pairs);
  const double angle = static_cast<double>(i / pairs) * step;
  turns[i] = {static_cast<float>(cos(angle)), static_cast<float>(sin(angle))};
}

}  // namespace

int64_t RotaryBytes(int64_t queries, int64_t keys, int rotary_dims) {
  return (queries < keys ? keys : queries) * (rotary_dims / 2) *
         static_cast<int64_t>(sizeof(float2));
}

cudaError_t RotaryTurns(const AttentionProblem& p, float base, cudaStream_t stream) {
  const int64_t bytes = RotaryBytes(p.queries, p.keys, p.rotary_dims);
  const int64_t count = bytes / static_cast<int64_t>(sizeof(float2));
  if (count == 0) return cudaSuccess;
  RotaryKernel<<<BlocksOf(count), kThreads, 0, stream>>>(p.turns, count, p.rotary_dims / 2, base);
  return cudaGetLastError();
}

}  // namespace neap::kernels

// The cosines and sines of rotary positions, in float64, because the angles of late positions are
// large; and the rotation of heads for kernels that do not rotate what they read.
#include <cmath>

#include "neap/layers/cuda/kernels/attention/attention.h"
#include "neap/layers/cuda/kernels/device_math.cuh"
#include "neap/layers/cuda/kernels/elements.cuh"

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

// A block for each position of an image, and a thread for each pair of dimensions or each dimension
// that is not rotated.
template <typename T>
__global__ void __launch_bounds__(kThreads) RotateHeadsKernel(RotatedHeads h) {
  const int64_t image = blockIdx.x / h.positions;
  const auto position = static_cast<int>(blockIdx.x % h.positions);
  const int half = h.rotary_dims / 2, of_head = h.dims - half;
  const T* const from =
      As<T>(h.from) + image * h.from_steps.image + position * h.from_steps.position;
  T* const to = As<T>(h.to) + image * h.to_steps.image + position * h.to_steps.position;
  for (int i = static_cast<int>(threadIdx.x); i < h.heads * of_head; i += kThreads) {
    const int head = i / of_head, d = i % of_head;
    const T* const x = from + head * h.from_steps.head;
    T* const y = to + head * h.to_steps.head;
    if (d >= half) {
      y[d + half] = x[d + half];
      continue;
    }
    const float2 turn = h.turns[static_cast<size_t>(position) * half + d];
    const float a = ToFloat(x[d]), b = ToFloat(x[d + half]);
    const float sine = h.back ? -turn.y : turn.y;
    y[d] = RoundTo<T>(a * turn.x - b * sine);
    y[d + half] = RoundTo<T>(b * turn.x + a * sine);
  }
}

}  // namespace

int64_t RotaryBytes(int64_t queries, int64_t keys, int rotary_dims) {
  return (queries < keys ? keys : queries) * (rotary_dims / 2) *
         static_cast<int64_t>(sizeof(float2));
}

cudaError_t RotaryTurns(int64_t queries, int64_t keys, int rotary_dims, float base, float2* turns,
                        cudaStream_t stream) {
  const int64_t bytes = RotaryBytes(queries, keys, rotary_dims);
  const int64_t count = bytes / static_cast<int64_t>(sizeof(float2));
  if (count == 0) return cudaSuccess;
  RotaryKernel<<<BlocksOf(count), kThreads, 0, stream>>>(turns, count, rotary_dims / 2, base);
  return cudaGetLastError();
}

cudaError_t RotateHeads(const RotatedHeads& heads, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(heads.images * heads.positions);
  const auto run = [&]<typename T>() {
    RotateHeadsKernel<T><<<blocks, kThreads, 0, stream>>>(heads);
    return cudaGetLastError();
  };
  return WithElement(run, heads.from, heads.to);
}

}  // namespace neap::kernels

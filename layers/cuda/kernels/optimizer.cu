// Stochastic gradient descent as one pass over a layer's parameters.
#include "neap/layers/cuda/kernels/device_math.cuh"
#include "neap/layers/cuda/kernels/optimizer.h"
#include "neap/layers/cuda/kernels/scalars.cuh"

namespace neap::kernels {
namespace {

constexpr int kVecFloats = kWide<float>;

// What all elements of a launch have in common.
struct Rule {
  float momentum, decay, rate, unscale;
  bool skip;
};

template <int kVec>
__device__ void WriteRounded(const Array& to, size_t i, const Vec<kVec>& w) {
  if (to.type == Element::kFp16) {
    Write<kVec>(As<__half>(to), i, w);
  } else {
    Write<kVec>(As<__nv_bfloat16>(to), i, w);
  }
}

template <int kVec>
__device__ void UpdateVector(const SgdTensors& t, int which, size_t i, const Rule& rule) {
  Vec<kVec> w = ReadFloats<kVec>(t.parameters[which], i);
  if (rule.skip) {
    if (t.rounded[which].data != nullptr) WriteRounded<kVec>(t.rounded[which], i, w);
    return;
  }
  const Vec<kVec> g = ReadFloats<kVec>(t.gradients[which], i);
  float* const velocity = t.velocities[which];
  Vec<kVec> v = {};
  if (velocity != nullptr) v = ReadFloats<kVec>(velocity, i);
#pragma unroll
  for (int k = 0; k < kVec; ++k) {
    // A product of its own, so that the sum is fused with the decay, with or without a loss scale.
    const float gradient = __fmul_rn(g.v[k], rule.unscale);
    v.v[k] = rule.momentum * v.v[k] + (gradient + rule.decay * w.v[k]);
    w.v[k] -= rule.rate * v.v[k];
  }
  if (velocity != nullptr) Write<kVec>(velocity, i, v);
  Write<kVec>(t.parameters[which], i, w);
  if (t.rounded[which].data != nullptr) WriteRounded<kVec>(t.rounded[which], i, w);
}

// blockIdx.y chooses the tensor. For a small tensor, most blocks have no work.
__global__ void __launch_bounds__(kThreads)
    SgdKernel(SgdTensors t, float momentum, float decay, const Scalars* scalars,
              const LossScale* loss_scale, unsigned vectorised) {
  const int which = static_cast<int>(blockIdx.y);
  const Rule rule = {momentum, decay, scalars->learning_rate,
                     loss_scale == nullptr ? 1.0F : 1.0F / loss_scale->scale,
                     loss_scale != nullptr && loss_scale->overflow != 0};
  const size_t n = static_cast<size_t>(t.elements[which]);
  const size_t step = static_cast<size_t>(gridDim.x) * kThreads;
  const size_t first = static_cast<size_t>(blockIdx.x) * kThreads + threadIdx.x;
  if ((vectorised >> which & 1U) != 0) {
    for (size_t i = first; i < n / kVecFloats; i += step)
      UpdateVector<kVecFloats>(t, which, i, rule);
    return;
  }
  for (size_t i = first; i < n; i += step) UpdateVector<1>(t, which, i, rule);
}

}  // namespace

cudaError_t SgdUpdate(const SgdTensors& tensors, float momentum, float weight_decay,
                      const void* scalars, const LossScale* loss_scale, cudaStream_t stream) {
  int64_t largest = 0;
  unsigned vectorised = 0;
  for (int i = 0; i < tensors.count; ++i) {
    if (tensors.rounded[i].data != nullptr && tensors.rounded[i].type == Element::kFp32)
      return cudaErrorInvalidValue;
    largest = tensors.elements[i] > largest ? tensors.elements[i] : largest;
    const bool aligned = AllAligned16(tensors.parameters[i], tensors.gradients[i],
                                      tensors.velocities[i], tensors.rounded[i].data);
    if (aligned && tensors.elements[i] % kVecFloats == 0) vectorised |= 1U << i;
  }
  if (largest == 0) return cudaSuccess;
  constexpr int64_t kMostBlocks = 4096;
  const int64_t wanted = CeilDiv(largest, kVecFloats * kThreads);
  const dim3 grid(static_cast<unsigned>(wanted < kMostBlocks ? wanted : kMostBlocks),
                  static_cast<unsigned>(tensors.count));
  SgdKernel<<<grid, kThreads, 0, stream>>>(tensors, momentum, weight_decay,
                                           static_cast<const Scalars*>(scalars), loss_scale,
                                           vectorised);
  return cudaGetLastError();
}

}  // namespace neap::kernels

// Stochastic gradient descent as one pass over the parameters of one layer or several.
#include "neap/layers/cuda/kernels/device_math.cuh"
#include "neap/layers/cuda/kernels/optimizer.h"
#include "neap/layers/cuda/kernels/scalars.cuh"
#include "neap/layers/cuda/kernels/tensor_blocks.cuh"

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

using Blocks = TensorBlocks<kMostTensors>;

// Two vectors for each thread: with more, a group of small layers would not fill the GPU.
constexpr int64_t kLeastPerBlock = 2LL * kThreads * kVecFloats;
static_assert(sizeof(SgdTensors) + sizeof(Blocks) + sizeof(Rule) + 32 <= 4096);

__global__ void __launch_bounds__(kThreads)
    SgdKernel(const __grid_constant__ SgdTensors t, const __grid_constant__ Blocks blocks,
              uint64_t vectorised, float momentum, float decay, const Scalars* scalars,
              const LossScale* loss_scale) {
  const BlockShare share = ShareOf(blocks, blockIdx.x);
  const int which = share.tensor;
  const Rule rule = {momentum, decay, scalars->learning_rate,
                     loss_scale == nullptr ? 1.0F : 1.0F / loss_scale->scale,
                     loss_scale != nullptr && loss_scale->overflow != 0};
  if ((vectorised >> which & 1U) != 0) {
    for (size_t i = share.begin / kVecFloats + threadIdx.x; i < share.end / kVecFloats;
         i += kThreads)
      UpdateVector<kVecFloats>(t, which, i, rule);
    return;
  }
  for (size_t i = share.begin + threadIdx.x; i < share.end; i += kThreads)
    UpdateVector<1>(t, which, i, rule);
}

}  // namespace

cudaError_t SgdUpdate(const SgdTensors& tensors, float momentum, float weight_decay,
                      const void* scalars, const LossScale* loss_scale, cudaStream_t stream) {
  uint64_t vectorised = 0;
  for (int i = 0; i < tensors.count; ++i) {
    if (tensors.rounded[i].data != nullptr && tensors.rounded[i].type == Element::kFp32)
      return cudaErrorInvalidValue;
    const bool aligned = AllAligned16(tensors.parameters[i], tensors.gradients[i],
                                      tensors.velocities[i], tensors.rounded[i].data);
    if (aligned && tensors.elements[i] % kVecFloats == 0) vectorised |= uint64_t{1} << i;
  }
  const auto blocks = BlocksOf<kMostTensors>(tensors, kLeastPerBlock);
  if (blocks.total() == 0) return cudaSuccess;
  SgdKernel<<<blocks.total(), kThreads, 0, stream>>>(
      tensors, blocks, vectorised, momentum, weight_decay, static_cast<const Scalars*>(scalars),
      loss_scale);
  return cudaGetLastError();
}

}  // namespace neap::kernels

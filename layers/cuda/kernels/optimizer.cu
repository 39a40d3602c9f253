// The update of parameters as one pass over those of one layer or several.
#include "neap/core/step/loss_scale.h"
#include "neap/layers/cuda/kernels/device_math.cuh"
#include "neap/layers/cuda/kernels/optimizer.h"
#include "neap/layers/cuda/kernels/scalars.cuh"
#include "neap/layers/cuda/kernels/tensor_blocks.cuh"

namespace neap::kernels {
namespace {

// What all elements of a launch have in common.
struct Rule {
  float rate;            // AdamW: divided by its first correction
  float decay;           // AdamW: times the learning rate
  float gradient_scale;  // by which gradients are multiplied
  float root;            // AdamW: the root of its second correction
  bool skip;
};

// 1 - beta^t, without cancellation.
__device__ double BiasCorrection(float beta, double t) {
  return -expm1(t * log(static_cast<double>(beta)));
}

__device__ Rule RuleOf(const OptimizerOptions& optimizer, const Scalars& scalars,
                       const float* squares, const LossScale* loss_scale) {
  Rule rule = {scalars.learning_rate, optimizer.weight_decay, 1.0F, 1.0F, false};
  if (loss_scale != nullptr) {
    rule.gradient_scale = 1.0F / loss_scale->scale;
    rule.skip = loss_scale->overflow != 0;
  }
  if (squares != nullptr) {
    // Written so that a norm that is NaN makes every parameter NaN.
    const float norm = sqrtf(*squares) * rule.gradient_scale;
    const float factor = optimizer.clip_norm / (norm + 1e-6F);
    if (!(factor >= 1.0F)) rule.gradient_scale *= factor;
  }
  if (optimizer.is_adamw) {
    const double skipped = loss_scale == nullptr ? 0.0 : static_cast<double>(loss_scale->skipped);
    const double updates = static_cast<double>(scalars.step) + 1.0 - skipped;
    rule.decay *= rule.rate;
    rule.rate /= static_cast<float>(BiasCorrection(optimizer.beta1, updates));
    rule.root = sqrtf(static_cast<float>(BiasCorrection(optimizer.beta2, updates)));
  }
  return rule;
}

template <int kVec>
__device__ void WriteRounded(void* to, Element type, size_t i, const Vec<kVec>& w) {
  if (type == Element::kFp16) {
    Write<kVec>(static_cast<__half*>(to), i, w);
  } else {
    Write<kVec>(static_cast<__nv_bfloat16*>(to), i, w);
  }
}

template <int kVec>
__device__ void Sgd(const UpdatePointers& t, int which, size_t i, const OptimizerOptions& optimizer,
                    const Rule& rule, const Vec<kVec>& g, Vec<kVec>& w) {
  float* const moments = t.moments[which];
  Vec<kVec> v = {};
  if (moments != nullptr) v = ReadFloats<kVec>(moments, i);
#pragma unroll
  for (int k = 0; k < kVec; ++k) {
    // A product of its own, so that the sum is fused with the decay, with or without a loss scale.
    const float gradient = __fmul_rn(g.v[k], rule.gradient_scale) + rule.decay * w.v[k];
    v.v[k] = optimizer.momentum * v.v[k] + gradient;
    w.v[k] -= rule.rate * (optimizer.nesterov ? gradient + optimizer.momentum * v.v[k] : v.v[k]);
  }
  if (moments != nullptr) Write<kVec>(moments, i, v);
}

template <int kVec>
__device__ void AdamW(const UpdatePointers& t, int which, size_t i,
                      const OptimizerOptions& optimizer, const Rule& rule, const Vec<kVec>& g,
                      Vec<kVec>& w) {
  Vec<kVec> m = ReadFloats<kVec>(t.moments[which], i);
  Vec<kVec> v = ReadFloats<kVec>(t.second_moments[which], i);
#pragma unroll
  for (int k = 0; k < kVec; ++k) {
    const float gradient = g.v[k] * rule.gradient_scale;
    m.v[k] += (1.0F - optimizer.beta1) * (gradient - m.v[k]);
    v.v[k] = optimizer.beta2 * v.v[k] + (1.0F - optimizer.beta2) * gradient * gradient;
    w.v[k] -= rule.decay * w.v[k];
    w.v[k] -= rule.rate * m.v[k] / (sqrtf(v.v[k]) / rule.root + optimizer.epsilon);
  }
  Write<kVec>(t.moments[which], i, m);
  Write<kVec>(t.second_moments[which], i, v);
}

template <int kVec>
__device__ void UpdateVector(const UpdatePointers& t, int which, size_t i,
                             const OptimizerOptions& optimizer, const Rule& rule) {
  Vec<kVec> w = ReadFloats<kVec>(t.parameters[which], i);
  void* const rounded = t.rounded[which];
  if (!rule.skip) {
    const Vec<kVec> g = ReadFloats<kVec>(t.gradients[which], i);
    if (optimizer.is_adamw) {
      AdamW<kVec>(t, which, i, optimizer, rule, g, w);
    } else {
      Sgd<kVec>(t, which, i, optimizer, rule, g, w);
    }
    if (float* const averages = t.averages[which]) {
      Vec<kVec> average = ReadFloats<kVec>(averages, i);
#pragma unroll
      for (int k = 0; k < kVec; ++k)
        average.v[k] += (1.0F - optimizer.average_decay) * (w.v[k] - average.v[k]);
      Write<kVec>(averages, i, average);
    }
    Write<kVec>(t.parameters[which], i, w);
  }
  if (rounded != nullptr) WriteRounded<kVec>(rounded, t.rounded_type, i, w);
}

// Two vectors for each thread: with more, a group of small layers would not fill the GPU.
constexpr int64_t kMinPerBlock = 2LL * kThreads * kWide<float>;
static_assert(sizeof(UpdatePointers) + sizeof(TensorBlocks<kMaxTensors>) +
                  sizeof(OptimizerOptions) + 40 <=
              4096);

__global__ void __launch_bounds__(kThreads)
    UpdateKernel(const __grid_constant__ UpdatePointers t,
                 const __grid_constant__ TensorBlocks<kMaxTensors> blocks, uint64_t vectorised,
                 const __grid_constant__ OptimizerOptions optimizer, const Scalars* scalars,
                 const float* squares, const LossScale* loss_scale) {
  __shared__ Rule of_block;  // which takes a few hundred instructions in double precision
  if (threadIdx.x == 0) of_block = RuleOf(optimizer, *scalars, squares, loss_scale);
  __syncthreads();
  const Rule rule = of_block;
  const BlockShare share = ShareOf(blocks, blockIdx.x);
  const int which = share.tensor;
  if ((vectorised >> which & 1U) != 0) {
    for (size_t i = share.begin / kWide<float> + threadIdx.x; i < share.end / kWide<float>;
         i += kThreads)
      UpdateVector<kWide<float>>(t, which, i, optimizer, rule);
    return;
  }
  for (size_t i = share.begin + threadIdx.x; i < share.end; i += kThreads)
    UpdateVector<1>(t, which, i, optimizer, rule);
}

}  // namespace

cudaError_t UpdateParameters(const UpdateTensors& tensors, const OptimizerOptions& optimizer,
                             const void* scalars, const float* squares, const LossScale* loss_scale,
                             cudaStream_t stream) {
  const UpdatePointers& t = tensors.pointers;
  uint64_t vectorised = 0;
  for (int i = 0; i < tensors.count; ++i) {
    if (t.rounded[i] != nullptr && t.rounded_type == Element::kFp32) return cudaErrorInvalidValue;
    const bool aligned = AllAligned16(t.parameters[i], t.gradients[i], t.moments[i],
                                      t.second_moments[i], t.averages[i], t.rounded[i]);
    if (aligned && tensors.elements[i] % kWide<float> == 0) vectorised |= uint64_t{1} << i;
  }
  const auto blocks = BlocksOf<kMaxTensors>(tensors, kMinPerBlock);
  if (blocks.total() == 0) return cudaSuccess;
  UpdateKernel<<<blocks.total(), kThreads, 0, stream>>>(
      t, blocks, vectorised, optimizer, static_cast<const Scalars*>(scalars), squares, loss_scale);
  return cudaGetLastError();
}

}  // namespace neap::kernels

// The loss scale: the check of gradients, what a skipped step takes back, and the scale's rule.
#include "neap/core/step/loss_scale.h"
#include "neap/layers/cuda/kernels/device_math.cuh"
#include "neap/layers/cuda/kernels/optimizer.h"
#include "neap/layers/cuda/kernels/tensor_blocks.cuh"

namespace neap::kernels {
namespace {

static_assert(sizeof(GradientTensors) + sizeof(TensorBlocks<kMaxTensors>) + 32 <= 4096);
static_assert(sizeof(StateTensors) + sizeof(TensorBlocks<kMaxTensors>) + 32 <= 4096);

// Not finite: all bits of the exponent are set.
__device__ __forceinline__ bool IsFinite(float f) {
  return (__float_as_uint(f) & 0x7F800000U) != 0x7F800000U;
}

template <int kVec>
__device__ bool AllFinite(const float* values, size_t first, size_t end) {
  bool finite = true;
#pragma unroll 4
  for (size_t i = first; i < end; i += kThreads) {
    const Vec<kVec> v = ReadFloats<kVec>(values, i);
#pragma unroll
    for (float f : v.v) finite = finite && IsFinite(f);
  }
  return finite;
}

// All threads that store to `overflow` store the same value.
__global__ void __launch_bounds__(kThreads)
    CheckKernel(const __grid_constant__ GradientTensors t,
                const __grid_constant__ TensorBlocks<kMaxTensors> blocks, uint64_t vectorised,
                LossScale* loss_scale) {
  const BlockShare share = ShareOf(blocks, blockIdx.x);
  const float* const values = t.gradients[share.tensor];
  const bool finite =
      (vectorised >> share.tensor & 1U) != 0
          ? AllFinite<kWide<float>>(values, share.begin / kWide<float> + threadIdx.x,
                                    share.end / kWide<float>)
          : AllFinite<1>(values, share.begin + threadIdx.x, share.end);
  if (!finite) loss_scale->overflow = 1;
}

__global__ void __launch_bounds__(kThreads)
    CommitKernel(const __grid_constant__ StateTensors t,
                 const __grid_constant__ TensorBlocks<kMaxTensors> blocks,
                 const LossScale* loss_scale) {
  const BlockShare share = ShareOf(blocks, blockIdx.x);
  const bool overflow = loss_scale->overflow != 0;
  const float* const from = overflow ? t.backups[share.tensor] : t.states[share.tensor];
  float* const to = overflow ? t.states[share.tensor] : t.backups[share.tensor];
  for (size_t i = share.begin + threadIdx.x; i < share.end; i += kThreads) to[i] = from[i];
}

__global__ void UpdateKernel(LossScale* loss_scale) { loss_scale->Advance(); }

}  // namespace

cudaError_t CheckFinite(const GradientTensors& tensors, LossScale* loss_scale,
                        cudaStream_t stream) {
  uint64_t vectorised = 0;
  for (int i = 0; i < tensors.count; ++i) {
    if (Aligned16(tensors.gradients[i]) && tensors.elements[i] % kWide<float> == 0)
      vectorised |= uint64_t{1} << i;
  }
  const auto blocks = BlocksOf<kMaxTensors>(tensors, int64_t{4} * kThreads * kWide<float>);
  if (blocks.total() == 0) return cudaSuccess;
  CheckKernel<<<blocks.total(), kThreads, 0, stream>>>(tensors, blocks, vectorised, loss_scale);
  return cudaGetLastError();
}

cudaError_t CommitState(const StateTensors& tensors, const LossScale* loss_scale,
                        cudaStream_t stream) {
  const auto blocks = BlocksOf<kMaxTensors>(tensors, kThreads * kUnroll);
  if (blocks.total() == 0) return cudaSuccess;
  CommitKernel<<<blocks.total(), kThreads, 0, stream>>>(tensors, blocks, loss_scale);
  return cudaGetLastError();
}

cudaError_t UpdateLossScale(LossScale* loss_scale, cudaStream_t stream) {
  UpdateKernel<<<1, 1, 0, stream>>>(loss_scale);
  return cudaGetLastError();
}

}  // namespace neap::kernels

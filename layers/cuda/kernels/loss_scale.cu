// The loss scale: the check of gradients, what a skipped step takes back, and the scale's rule.
#include "neap/layers/cuda/kernels/device_math.cuh"
#include "neap/layers/cuda/kernels/optimizer.h"

namespace neap::kernels {
namespace {

constexpr int kVecFloats = kWide<float>;

// Not finite: all bits of the exponent are set.
__device__ __forceinline__ bool IsFinite(float f) {
  return (__float_as_uint(f) & 0x7F800000U) != 0x7F800000U;
}

template <int kVec>
__device__ bool AllFinite(const float* values, size_t vectors, size_t first, size_t step) {
  bool finite = true;
#pragma unroll 4
  for (size_t i = first; i < vectors; i += step) {
    const Vec<kVec> v = ReadFloats<kVec>(values, i);
#pragma unroll
    for (float f : v.v) finite = finite && IsFinite(f);
  }
  return finite;
}

// blockIdx.y chooses the tensor. All threads that store to `overflow` store the same value.
__global__ void __launch_bounds__(kThreads)
    CheckKernel(GradientTensors t, unsigned vectorised, LossScale* loss_scale) {
  const int which = static_cast<int>(blockIdx.y);
  const size_t n = static_cast<size_t>(t.elements[which]);
  const size_t step = static_cast<size_t>(gridDim.x) * kThreads;
  const size_t first = static_cast<size_t>(blockIdx.x) * kThreads + threadIdx.x;
  const float* const values = t.gradients[which];
  const bool finite = (vectorised >> which & 1U) != 0
                          ? AllFinite<kVecFloats>(values, n / kVecFloats, first, step)
                          : AllFinite<1>(values, n, first, step);
  if (!finite) loss_scale->overflow = 1;
}

__global__ void __launch_bounds__(kThreads)
    CommitKernel(StateTensors t, const LossScale* loss_scale) {
  const int which = static_cast<int>(blockIdx.y);
  const bool overflow = loss_scale->overflow != 0;
  const float* const from = overflow ? t.backups[which] : t.states[which];
  float* const to = overflow ? t.states[which] : t.backups[which];
  const size_t n = static_cast<size_t>(t.elements[which]);
  const size_t step = static_cast<size_t>(gridDim.x) * kThreads;
  for (size_t i = static_cast<size_t>(blockIdx.x) * kThreads + threadIdx.x; i < n; i += step)
    to[i] = from[i];
}

__global__ void UpdateKernel(LossScale* loss_scale) { loss_scale->Advance(); }

// A row of blocks for each tensor, enough for the largest.
dim3 GridOf(const int64_t* elements, int count, int64_t per_thread) {
  constexpr int64_t kMostBlocks = 1024;
  int64_t largest = 1;
  for (int i = 0; i < count; ++i) largest = elements[i] > largest ? elements[i] : largest;
  const int64_t wanted = CeilDiv(largest, per_thread * kThreads);
  return dim3(static_cast<unsigned>(wanted < kMostBlocks ? wanted : kMostBlocks),
              static_cast<unsigned>(count));
}

}  // namespace

cudaError_t CheckFinite(const GradientTensors& tensors, LossScale* loss_scale,
                        cudaStream_t stream) {
  if (tensors.count == 0) return cudaSuccess;
  unsigned vectorised = 0;
  for (int i = 0; i < tensors.count; ++i) {
    if (Aligned16(tensors.gradients[i]) && tensors.elements[i] % kVecFloats == 0)
      vectorised |= 1U << i;
  }
  const dim3 grid = GridOf(tensors.elements, tensors.count, int64_t{4} * kVecFloats);
  CheckKernel<<<grid, kThreads, 0, stream>>>(tensors, vectorised, loss_scale);
  return cudaGetLastError();
}

cudaError_t CommitState(const StateTensors& tensors, const LossScale* loss_scale,
                        cudaStream_t stream) {
  if (tensors.count == 0) return cudaSuccess;
  const dim3 grid = GridOf(tensors.elements, tensors.count, 1);
  CommitKernel<<<grid, kThreads, 0, stream>>>(tensors, loss_scale);
  return cudaGetLastError();
}

cudaError_t UpdateLossScale(LossScale* loss_scale, cudaStream_t stream) {
  UpdateKernel<<<1, 1, 0, stream>>>(loss_scale);
  return cudaGetLastError();
}

}  // namespace neap::kernels

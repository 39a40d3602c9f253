// The mask of a ReLU's result (layers/fusion/norm_pass.h), and the gradient through it.
#include "neap/layers/cuda/kernels/channel_reduce.cuh"
#include "neap/layers/cuda/kernels/kernels.h"
#include "neap/layers/cuda/kernels/norm/batch_norm.cuh"
#include "neap/layers/cuda/kernels/norm/batch_norm.h"
#include "neap/layers/cuda/kernels/norm/batch_norm_apply.cuh"
#include "neap/layers/cuda/kernels/norm/batch_norm_passes.cuh"

namespace neap::kernels {
namespace {

// Bytes of the mask, each of a vector; the elements behind the last whole one are 0.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    ReluMaskKernel(const T* __restrict__ y, size_t n, bool wide, uint8_t* __restrict__ mask) {
  constexpr int kVec = kWide<T>;
  const size_t i = static_cast<size_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i * kVec >= n) return;
  unsigned bits = 0;
  if (wide) {
    const Vec<kVec> v = Unpack(Read<kVec>(y, i));
#pragma unroll
    for (int k = 0; k < kVec; ++k) bits |= MaskBit(v.v[k]) << k;
  } else {
    for (int k = 0; k < kVec && i * kVec + k < n; ++k)
      bits |= MaskBit(ToFloat(y[i * kVec + k])) << k;
  }
  mask[i] = static_cast<uint8_t>(bits);
}

// Computes the gradient before the ReLU, and sums it. `other` may be null.
template <typename T>
struct MaskedSumOp {
  using Total = Sums<1>;
  const T* dy;
  const T* other;
  const uint8_t* mask;
  T* dz;
  struct Nothing {};
  template <int kVec>
  struct Registers {
    Packed<T, kVec> dy, other;
    unsigned bits;
  };
  template <bool kLast, int kVec>
  __device__ Nothing Prepare(size_t, size_t) const {
    return {};
  }
  template <int kVec>
  __device__ Registers<kVec> Load(size_t i) const {
    Registers<kVec> loaded = {Read<kVec>(dy, i), {}, ReadMask<T, kVec>(mask, i)};
    if (other != nullptr) loaded.other = Read<kVec>(other, i);
    return loaded;
  }
  template <int kVec>
  __device__ void Accumulate(Nothing, const Registers<kVec>& in, size_t i,
                             Accumulators<1, kVec>& sums) const {
    Vec<kVec> v = other == nullptr ? Unpack(in.dy) : Unpack(TwoGradients<T, kVec>{in.dy, in.other});
    ApplyMask(in.bits, v);
#pragma unroll
    for (int k = 0; k < kVec; ++k) sums.v[0].v[k] += v.v[k];
    Write<kVec>(dz, i, v);
  }
};

}  // namespace

cudaError_t ReluMask(ConstArray y, int64_t n, uint8_t* mask, cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    const bool wide = Aligned16(y) && n % kWide<T> == 0;
    const int64_t bytes = CeilDiv(n, kWide<T>);
    ReluMaskKernel<T><<<static_cast<unsigned>(CeilDiv(bytes, kThreads)), kThreads, 0, stream>>>(
        As<T>(y), static_cast<size_t>(n), wide, mask);
    return cudaGetLastError();
  };
  return WithElement(run, y);
}

cudaError_t MaskedGradient(const ChannelShape& s, ConstArray dy, ConstArray other,
                           const uint8_t* mask, Array dz, float* dbeta,
                           const ReductionMemory& memory, cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    const MaskedSumOp<T> op = {As<T>(dy), As<T>(other), mask, As<T>(dz)};
    return Reduce<T>(s, AllAligned16(dy, other, dz), op, StoreSum{dbeta, /*add=*/false}, memory,
                     stream);
  };
  return WithElement(run, dy, other, dz);
}

}  // namespace neap::kernels

// Copies rows between tensors of different row lengths: concatenation along the channels and its
// gradient, in both layouts.
#include "neap/layers/cuda/kernels/device_math.cuh"
#include "neap/layers/cuda/kernels/kernels.h"

namespace neap::kernels {
namespace {

template <int kVec, bool kAccumulate, typename Index, typename T>
__global__ void __launch_bounds__(kThreads)
    CopyRowsKernel(Index vectors, Divider<Index> width, size_t in_stride, size_t out_stride,
                   const T* __restrict__ in, T* __restrict__ out) {
  const Index first = static_cast<Index>(blockIdx.x) * (kThreads * kUnroll) + threadIdx.x;
  Packed<T, kVec> loaded[kUnroll];
  size_t to[kUnroll];
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const Index i = first + static_cast<Index>(u * kThreads);
    if (i >= vectors) continue;
    Index within = 0;
    const size_t row = width.Split(i, within);
    to[u] = row * out_stride + within;
    loaded[u] = Read<kVec>(in, row * in_stride + within);
  }
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    if (first + static_cast<Index>(u * kThreads) >= vectors) continue;
    if constexpr (kAccumulate) {
      WriteOrAdd<kVec>(out, to[u], Unpack(loaded[u]), true);
    } else {
      Write<kVec>(out, to[u], loaded[u]);
    }
  }
}

template <int kVec, bool kAccumulate, typename T>
void LaunchCopyRows(const RowCopy& c, const T* in, T* out, cudaStream_t stream) {
  const int64_t n = c.rows * c.width / kVec;
  const size_t in_stride = static_cast<size_t>(c.in_stride / kVec),
               out_stride = static_cast<size_t>(c.out_stride / kVec);
  const auto launch = [&]<typename Index>() {
    CopyRowsKernel<kVec, kAccumulate, Index><<<MapBlocks(n), kThreads, 0, stream>>>(
        static_cast<Index>(n), Divider<Index>(c.width / kVec), in_stride, out_stride, in, out);
  };
  Fits32(n) ? launch.template operator()<uint32_t>() : launch.template operator()<uint64_t>();
}

template <bool kAccumulate, typename T>
cudaError_t CopyElements(const RowCopy& c, const T* in, T* out, cudaStream_t stream) {
  constexpr int kVec = kWide<T>;
  const bool wide = AllAligned16(in, out) && c.width % kVec == 0 && c.in_stride % kVec == 0 &&
                    c.out_stride % kVec == 0;
  wide ? LaunchCopyRows<kVec, kAccumulate>(c, in, out, stream)
       : LaunchCopyRows<1, kAccumulate>(c, in, out, stream);
  return cudaGetLastError();
}

}  // namespace

cudaError_t CopyRows(const RowCopy& c, ConstArray in, Array out, cudaStream_t stream) {
  if (c.rows * c.width == 0) return cudaSuccess;
  const auto add = [&]<typename T>() {
    return CopyElements<true>(c, As<T>(in), As<T>(out), stream);
  };
  const auto copy = [&]<typename T>() {
    return CopyElements<false>(c, As<T>(in), As<T>(out), stream);
  };
  return c.accumulate ? WithElement(add, in, out) : WithElementSize(copy, in, out);
}

}  // namespace neap::kernels

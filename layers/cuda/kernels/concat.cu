// Copies rows between tensors of different row lengths: concatenation along the channels and its
// gradient, in both layouts.
#include "neap/layers/cuda/kernels/device_math.cuh"
#include "neap/layers/cuda/kernels/kernels.h"

namespace neap::kernels {
namespace {

template <int kVec, bool kAccumulate, typename Index>
__global__ void __launch_bounds__(kThreads)
    CopyRowsKernel(Index vectors, Divider<Index> width, size_t in_stride, size_t out_stride,
                   const float* __restrict__ in, float* __restrict__ out) {
  const Index first = static_cast<Index>(blockIdx.x) * (kThreads * kUnroll) + threadIdx.x;
  Vec<kVec> loaded[kUnroll];
  size_t to[kUnroll];
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const Index i = first + static_cast<Index>(u * kThreads);
    if (i >= vectors) continue;
    Index within = 0;
    const size_t row = width.Split(i, within);
    to[u] = row * out_stride + within;
    loaded[u] = At<kVec>(in, row * in_stride + within);
  }
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    if (first + static_cast<Index>(u * kThreads) >= vectors) continue;
    if constexpr (kAccumulate) {
      const Vec<kVec> old = At<kVec>(static_cast<const float*>(out), to[u]);
#pragma unroll
      for (int k = 0; k < kVec; ++k) loaded[u].v[k] += old.v[k];
    }
    At<kVec>(out, to[u]) = loaded[u];
  }
}

template <int kVec, typename Index>
void Launch(const RowCopy& c, const float* in, float* out, cudaStream_t stream) {
  const int64_t n = c.rows * c.width / kVec;
  const Divider<Index> width(c.width / kVec);
  const size_t in_stride = static_cast<size_t>(c.in_stride / kVec),
               out_stride = static_cast<size_t>(c.out_stride / kVec);
  if (c.accumulate) {
    CopyRowsKernel<kVec, true, Index><<<MapBlocks(n), kThreads, 0, stream>>>(
        static_cast<Index>(n), width, in_stride, out_stride, in, out);
  } else {
    CopyRowsKernel<kVec, false, Index><<<MapBlocks(n), kThreads, 0, stream>>>(
        static_cast<Index>(n), width, in_stride, out_stride, in, out);
  }
}

}  // namespace

cudaError_t CopyRows(const RowCopy& c, const float* in, float* out, cudaStream_t stream) {
  const int64_t n = c.rows * c.width;
  if (n == 0) return cudaSuccess;
  const bool wide = AllAligned16(in, static_cast<const float*>(out)) && c.width % 4 == 0 &&
                    c.in_stride % 4 == 0 && c.out_stride % 4 == 0;
  if (wide) {
    Fits32(n / 4) ? Launch<4, uint32_t>(c, in, out, stream)
                  : Launch<4, uint64_t>(c, in, out, stream);
  } else {
    Fits32(n) ? Launch<1, uint32_t>(c, in, out, stream) : Launch<1, uint64_t>(c, in, out, stream);
  }
  return cudaGetLastError();
}

}  // namespace neap::kernels

// The kernels that a 1x1 convolution runs before and after its matrix products.
#include "neap/layers/cuda/kernels/device_math.cuh"
#include "neap/layers/cuda/kernels/kernels.h"

namespace neap::kernels {
namespace {

template <typename Index>
struct Grid {
  Grid(int64_t h, int64_t w) : rows(h), columns(w) {}
  Divider<Index> rows, columns;
};

template <typename Index>
__global__ void __launch_bounds__(kThreads)
    GatherKernel(PixelGrid g, Grid<Index> grid, Index n, const float* __restrict__ x,
                 float* __restrict__ out) {
  const Index i = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  Index row = 0, column = 0;
  const size_t plane = grid.rows.Split(grid.columns.Split(i, column), row);
  out[i] = x[(plane * g.h + row * g.stride_h) * g.w + column * g.stride_w];
}

// One thread per element of the large image, most of which are zero.
template <typename Index>
__global__ void __launch_bounds__(kThreads)
    SpreadKernel(PixelGrid g, Grid<Index> grid, Divider<uint32_t> stride_h,
                 Divider<uint32_t> stride_w, Index n, const float* __restrict__ small,
                 float* __restrict__ dx) {
  const Index i = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  Index row = 0, column = 0;
  const size_t plane = grid.rows.Split(grid.columns.Split(i, column), row);
  uint32_t off_row = 0, off_column = 0;
  const uint32_t h = stride_h.Split(static_cast<uint32_t>(row), off_row);
  const uint32_t w = stride_w.Split(static_cast<uint32_t>(column), off_column);
  const bool hit = off_row == 0 && off_column == 0 && h < g.out_h && w < g.out_w;
  dx[i] = hit ? small[(plane * g.out_h + h) * g.out_w + w] : 0.0F;
}

template <int kVec>
__global__ void __launch_bounds__(kThreads)
    SumPartsKernel(const float* __restrict__ parts, int count, size_t vectors,
                   float* __restrict__ sum) {
  const size_t i = static_cast<size_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= vectors) return;
  Vec<kVec> total = ReadFloats<kVec>(parts, i);
#pragma unroll 8
  for (int p = 1; p < count; ++p) {
    const Vec<kVec> part = ReadFloats<kVec>(parts, static_cast<size_t>(p) * vectors + i);
#pragma unroll
    for (int k = 0; k < kVec; ++k) total.v[k] += part.v[k];
  }
  Write<kVec>(sum, i, total);
}

template <typename Index>
void LaunchGather(const PixelGrid& g, int64_t n, const float* x, float* out, cudaStream_t stream) {
  GatherKernel<Index><<<static_cast<unsigned>(CeilDiv(n, kThreads)), kThreads, 0, stream>>>(
      g, Grid<Index>(g.out_h, g.out_w), static_cast<Index>(n), x, out);
}

template <typename Index>
void LaunchSpread(const PixelGrid& g, int64_t n, const float* small, float* dx,
                  cudaStream_t stream) {
  SpreadKernel<Index><<<static_cast<unsigned>(CeilDiv(n, kThreads)), kThreads, 0, stream>>>(
      g, Grid<Index>(g.h, g.w), Divider<uint32_t>(g.stride_h), Divider<uint32_t>(g.stride_w),
      static_cast<Index>(n), small, dx);
}

}  // namespace

cudaError_t Gather(const PixelGrid& g, const float* x, float* out, cudaStream_t stream) {
  const int64_t n = g.planes * g.out_h * g.out_w;
  Fits32(n) ? LaunchGather<uint32_t>(g, n, x, out, stream)
            : LaunchGather<uint64_t>(g, n, x, out, stream);
  return cudaGetLastError();
}

cudaError_t Spread(const PixelGrid& g, const float* small, float* dx, cudaStream_t stream) {
  const int64_t n = g.planes * g.h * g.w;
  Fits32(n) ? LaunchSpread<uint32_t>(g, n, small, dx, stream)
            : LaunchSpread<uint64_t>(g, n, small, dx, stream);
  return cudaGetLastError();
}

cudaError_t SumParts(const float* parts, int64_t count, int64_t n, float* sum,
                     cudaStream_t stream) {
  const bool wide = AllAligned16(parts, sum) && n % 4 == 0;
  const int64_t vectors = wide ? n / 4 : n;
  const unsigned blocks = static_cast<unsigned>(CeilDiv(vectors, kThreads));
  if (wide) {
    SumPartsKernel<4><<<blocks, kThreads, 0, stream>>>(parts, static_cast<int>(count),
                                                       static_cast<size_t>(vectors), sum);
  } else {
    SumPartsKernel<1><<<blocks, kThreads, 0, stream>>>(parts, static_cast<int>(count),
                                                       static_cast<size_t>(vectors), sum);
  }
  return cudaGetLastError();
}

}  // namespace neap::kernels

// Rearranges pixels into channels and back.
#include "neap/layers/cuda/kernels/device_math.cuh"
#include "neap/layers/cuda/kernels/kernels.h"

namespace neap::kernels {
namespace {

template <typename Index>
struct Position {
  Index n, c, h, w;
};

// {n, c, h, w} of the i-th element of a tensor, in either layout.
template <typename Index>
struct Grid {
  Grid(int64_t c, int64_t h, int64_t w, bool channels_last)
      : channels(c), rows(h), columns(w), last(channels_last) {}
  __device__ __forceinline__ Position<Index> At(Index i) const {
    Position<Index> p = {};
    if (last) i = channels.Split(i, p.c);
    i = rows.Split(columns.Split(i, p.w), p.h);
    p.n = last ? i : channels.Split(i, p.c);
    return p;
  }
  __device__ __forceinline__ size_t IndexOf(const Position<Index>& p) const {
    const size_t c = channels.divisor, h = rows.divisor, w = columns.divisor;
    return last ? ((p.n * h + p.h) * w + p.w) * c + p.c : ((p.n * c + p.c) * h + p.h) * w + p.w;
  }
  Divider<Index> channels, rows, columns;
  bool last;
};

template <typename Index>
struct Blocks {
  explicit Blocks(const DepthShape& s)
      : wide(s.channels, s.h, s.w, s.channels_last),
        deep(s.deep_channels, s.deep_h, s.deep_w, s.channels_last),
        block_h(s.block_h),
        block_w(s.block_w),
        padding_h(static_cast<Index>(s.padding_h)),
        padding_w(static_cast<Index>(s.padding_w)) {}
  Grid<Index> wide, deep;
  Divider<Index> block_h, block_w;
  Index padding_h, padding_w;
};

template <typename Index>
__global__ void __launch_bounds__(kThreads)
    SpaceToDepthKernel(Blocks<Index> b, Index n, const float* __restrict__ wide,
                       float* __restrict__ deep) {
  const Index i = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  const Position<Index> at = b.deep.At(i);
  Position<Index> from = {.n = at.n};
  Index column = 0;
  const Index row = b.block_w.Split(b.wide.channels.Split(at.c, from.c), column);
  // Positions before the image wrap around to values larger than its height and width.
  from.h = at.h * b.block_h.divisor + row - b.padding_h;
  from.w = at.w * b.block_w.divisor + column - b.padding_w;
  const bool is_pixel =
      row < b.block_h.divisor && from.h < b.wide.rows.divisor && from.w < b.wide.columns.divisor;
  deep[i] = is_pixel ? wide[b.wide.IndexOf(from)] : 0.0F;
}

template <typename Index>
__global__ void __launch_bounds__(kThreads)
    DepthToSpaceKernel(Blocks<Index> b, Index n, bool add, const float* __restrict__ deep,
                       float* __restrict__ wide) {
  const Index i = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  const Position<Index> at = b.wide.At(i);
  Position<Index> from = {.n = at.n};
  Index row = 0, column = 0;
  from.h = b.block_h.Split(at.h + b.padding_h, row);
  from.w = b.block_w.Split(at.w + b.padding_w, column);
  from.c = (row * b.block_w.divisor + column) * b.wide.channels.divisor + at.c;
  const bool has_place = from.h < b.deep.rows.divisor && from.w < b.deep.columns.divisor;
  const float value = has_place ? deep[b.deep.IndexOf(from)] : 0.0F;
  wide[i] = add ? wide[i] + value : value;
}

template <typename Index>
void LaunchSpaceToDepth(const DepthShape& s, int64_t n, const float* wide, float* deep,
                        cudaStream_t stream) {
  SpaceToDepthKernel<Index><<<static_cast<unsigned>(CeilDiv(n, kThreads)), kThreads, 0, stream>>>(
      Blocks<Index>(s), static_cast<Index>(n), wide, deep);
}

template <typename Index>
void LaunchDepthToSpace(const DepthShape& s, int64_t n, const float* deep, float* wide, bool add,
                        cudaStream_t stream) {
  DepthToSpaceKernel<Index><<<static_cast<unsigned>(CeilDiv(n, kThreads)), kThreads, 0, stream>>>(
      Blocks<Index>(s), static_cast<Index>(n), add, deep, wide);
}

}  // namespace

cudaError_t SpaceToDepth(const DepthShape& s, const float* wide, float* deep, cudaStream_t stream) {
  const int64_t n = s.outer * s.deep_channels * s.deep_h * s.deep_w;
  Fits32(n) ? LaunchSpaceToDepth<uint32_t>(s, n, wide, deep, stream)
            : LaunchSpaceToDepth<uint64_t>(s, n, wide, deep, stream);
  return cudaGetLastError();
}

cudaError_t DepthToSpace(const DepthShape& s, const float* deep, float* wide, bool add,
                         cudaStream_t stream) {
  const int64_t n = s.outer * s.channels * s.h * s.w;
  Fits32(n) ? LaunchDepthToSpace<uint32_t>(s, n, deep, wide, add, stream)
            : LaunchDepthToSpace<uint64_t>(s, n, deep, wide, add, stream);
  return cudaGetLastError();
}

}  // namespace neap::kernels

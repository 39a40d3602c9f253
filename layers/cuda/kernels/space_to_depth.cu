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
struct DepthGrid {
  DepthGrid(int64_t c, int64_t h, int64_t w, bool channels_last)
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
struct DepthBlocks {
  explicit DepthBlocks(const DepthShape& s)
      : wide(s.channels, s.h, s.w, s.channels_last),
        deep(s.deep_channels, s.deep_h, s.deep_w, s.channels_last),
        block_h(s.block_h),
        block_w(s.block_w),
        padding_h(static_cast<Index>(s.padding_h)),
        padding_w(static_cast<Index>(s.padding_w)) {}
  DepthGrid<Index> wide, deep;
  Divider<Index> block_h, block_w;
  Index padding_h, padding_w;
};

// The place of a deep pixel's channel in the wide image.
template <typename Index>
struct Source {
  Index row, column, channel;  // in the block, and in the wide pixel
  __device__ __forceinline__ void Next(const DepthBlocks<Index>& b) {
    if (++channel < b.wide.channels.divisor) return;
    channel = 0;
    if (++column < b.block_w.divisor) return;
    column = 0;
    ++row;
  }
};

// A thread writes kVec consecutive elements of `deep`: of one pixel in NHWC; kVec is 1 in NCHW.
// T is an unsigned integer of the elements' size.
template <int kVec, typename Index, typename T>
__global__ void __launch_bounds__(kThreads)
    SpaceToDepthKernel(DepthBlocks<Index> b, Index vectors, const T* __restrict__ wide,
                       T* __restrict__ deep) {
  const Index i = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= vectors) return;
  const Position<Index> at = b.deep.At(i * kVec);
  Source<Index> from = {};
  from.row = b.block_w.Split(b.wide.channels.Split(at.c, from.channel), from.column);
  // Positions before the image wrap around to values larger than its height and width.
  const Index top = at.h * b.block_h.divisor - b.padding_h;
  const Index left = at.w * b.block_w.divisor - b.padding_w;
  T values[kVec];
#pragma unroll
  for (int k = 0; k < kVec; ++k) {
    const Position<Index> p = {at.n, from.channel, top + from.row, left + from.column};
    const bool is_pixel =
        from.row < b.block_h.divisor && p.h < b.wide.rows.divisor && p.w < b.wide.columns.divisor;
    values[k] = is_pixel ? wide[b.wide.IndexOf(p)] : T{0};
    from.Next(b);
  }
  Packed<T, kVec> packed;
  memcpy(&packed, values, sizeof(packed));
  Write<kVec>(deep, i, packed);
}

template <typename Index>
__global__ void __launch_bounds__(kThreads)
    DepthToSpaceKernel(DepthBlocks<Index> b, Index n, bool add, const float* __restrict__ deep,
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

template <int kVec, typename T>
cudaError_t LaunchSpaceToDepth(const DepthShape& s, const T* wide, T* deep, cudaStream_t stream) {
  const int64_t n = s.outer * s.deep_channels * s.deep_h * s.deep_w;
  const unsigned blocks = static_cast<unsigned>(CeilDiv(n / kVec, kThreads));
  const auto launch = [&]<typename Index>() {
    SpaceToDepthKernel<kVec><<<blocks, kThreads, 0, stream>>>(
        DepthBlocks<Index>(s), static_cast<Index>(n / kVec), wide, deep);
  };
  Fits32(n) ? launch.template operator()<uint32_t>() : launch.template operator()<uint64_t>();
  return cudaGetLastError();
}

template <typename Index>
void LaunchDepthToSpace(const DepthShape& s, int64_t n, const float* deep, float* wide, bool add,
                        cudaStream_t stream) {
  DepthToSpaceKernel<Index><<<static_cast<unsigned>(CeilDiv(n, kThreads)), kThreads, 0, stream>>>(
      DepthBlocks<Index>(s), static_cast<Index>(n), add, deep, wide);
}

}  // namespace

cudaError_t SpaceToDepth(const DepthShape& s, ConstArray wide, Array deep, cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    const bool vectorised = s.channels_last && s.deep_channels % kWide<T> == 0 && Aligned16(deep);
    return vectorised ? LaunchSpaceToDepth<kWide<T>>(s, As<T>(wide), As<T>(deep), stream)
                      : LaunchSpaceToDepth<1>(s, As<T>(wide), As<T>(deep), stream);
  };
  return WithElementSize(run, wide, deep);
}

cudaError_t DepthToSpace(const DepthShape& s, const float* deep, float* wide, bool add,
                         cudaStream_t stream) {
  const int64_t n = s.outer * s.channels * s.h * s.w;
  Fits32(n) ? LaunchDepthToSpace<uint32_t>(s, n, deep, wide, add, stream)
            : LaunchDepthToSpace<uint64_t>(s, n, deep, wide, add, stream);
  return cudaGetLastError();
}

}  // namespace neap::kernels

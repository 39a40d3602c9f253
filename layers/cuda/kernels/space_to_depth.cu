// Rearranges pixels into channels and back.
#include "neap/layers/cuda/kernels/device_math.cuh"
#include "neap/layers/cuda/kernels/kernels.h"

namespace neap::kernels {
namespace {

template <typename Index>
struct Position {
  Index n, c, d, h, w;
};

// {n, c, d, h, w} of the i-th element of a tensor, in either layout.
template <int kAxes, typename Index>
struct DepthGrid {
  DepthGrid(int64_t c, int64_t d, int64_t h, int64_t w, bool channels_last)
      : channels(c), planes(d), rows(h), columns(w), last(channels_last) {}
  __device__ __forceinline__ Position<Index> At(Index i) const {
    Position<Index> p = {};
    if (last) i = channels.Split(i, p.c);
    i = rows.Split(columns.Split(i, p.w), p.h);
    if constexpr (kAxes == 3) i = planes.Split(i, p.d);
    p.n = last ? i : channels.Split(i, p.c);
    return p;
  }
  __device__ __forceinline__ size_t IndexOf(const Position<Index>& p) const {
    const size_t c = channels.divisor, h = rows.divisor, w = columns.divisor;
    size_t plane = last ? p.n : p.n * c + p.c;
    if constexpr (kAxes == 3) plane = plane * planes.divisor + p.d;
    const size_t pixel = (plane * h + p.h) * w + p.w;
    return last ? pixel * c + p.c : pixel;
  }
  Divider<Index> channels, planes, rows, columns;
  bool last;
};

template <int kAxes, typename Index>
struct DepthBlocks {
  explicit DepthBlocks(const DepthShape& s)
      : wide(s.channels, s.d, s.h, s.w, s.channels_last),
        deep(s.deep_channels, s.deep_d, s.deep_h, s.deep_w, s.channels_last),
        block_d(s.block_d),
        block_h(s.block_h),
        block_w(s.block_w),
        step_d(static_cast<Index>(s.step_d)),
        step_h(static_cast<Index>(s.step_h)),
        step_w(static_cast<Index>(s.step_w)),
        padding_d(static_cast<Index>(s.padding_d)),
        padding_h(static_cast<Index>(s.padding_h)),
        padding_w(static_cast<Index>(s.padding_w)) {}
  DepthGrid<kAxes, Index> wide, deep;
  Divider<Index> block_d, block_h, block_w;
  Index step_d, step_h, step_w;
  Index padding_d, padding_h, padding_w;
};

// The place of a deep pixel's channel in the wide image.
template <int kAxes, typename Index>
struct Source {
  Index plane, row, column, channel;  // in the block, and in the wide pixel
  __device__ __forceinline__ void Next(const DepthBlocks<kAxes, Index>& b) {
    if (++channel < b.wide.channels.divisor) return;
    channel = 0;
    if (++column < b.block_w.divisor) return;
    column = 0;
    ++row;
    if (kAxes == 2 || row < b.block_h.divisor) return;
    row = 0;
    ++plane;
  }
  // Whether the channel is none of those that pad the deep pixel.
  __device__ __forceinline__ bool IsInBlock(const DepthBlocks<kAxes, Index>& b) const {
    return kAxes == 2 ? row < b.block_h.divisor : plane < b.block_d.divisor;
  }
};

// A thread writes kVec consecutive elements of `deep`: of one pixel in NHWC; kVec is 1 in NCHW.
// T is an unsigned integer of the elements' size.
template <int kAxes, int kVec, typename Index, typename T>
__global__ void __launch_bounds__(kThreads)
    SpaceToDepthKernel(DepthBlocks<kAxes, Index> b, Index vectors, const T* __restrict__ wide,
                       T* __restrict__ deep) {
  const Index i = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= vectors) return;
  const Position<Index> at = b.deep.At(i * kVec);
  Source<kAxes, Index> from = {};
  from.row = b.block_w.Split(b.wide.channels.Split(at.c, from.channel), from.column);
  if constexpr (kAxes == 3) from.plane = b.block_h.Split(from.row, from.row);
  // Positions before the image wrap around to values larger than its extents.
  const Index front = at.d * b.step_d - b.padding_d;
  const Index top = at.h * b.step_h - b.padding_h;
  const Index left = at.w * b.step_w - b.padding_w;
  T values[kVec];
#pragma unroll
  for (int k = 0; k < kVec; ++k) {
    const Position<Index> p = {at.n, from.channel, front + from.plane, top + from.row,
                               left + from.column};
    const bool is_in_volume = kAxes == 2 || p.d < b.wide.planes.divisor;
    const bool is_pixel = from.IsInBlock(b) && is_in_volume && p.h < b.wide.rows.divisor &&
                          p.w < b.wide.columns.divisor;
    values[k] = is_pixel ? wide[b.wide.IndexOf(p)] : T{0};
    from.Next(b);
  }
  Packed<T, kVec> packed;
  memcpy(&packed, values, sizeof(packed));
  Write<kVec>(deep, i, packed);
}

template <int kAxes, typename Index>
__global__ void __launch_bounds__(kThreads)
    DepthToSpaceKernel(DepthBlocks<kAxes, Index> b, Index n, bool add,
                       const float* __restrict__ deep, float* __restrict__ wide) {
  const Index i = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  const Position<Index> at = b.wide.At(i);
  Position<Index> from = {.n = at.n};
  Index plane = 0, row = 0, column = 0;
  if constexpr (kAxes == 3) from.d = b.block_d.Split(at.d + b.padding_d, plane);
  from.h = b.block_h.Split(at.h + b.padding_h, row);
  from.w = b.block_w.Split(at.w + b.padding_w, column);
  from.c =
      ((plane * b.block_h.divisor + row) * b.block_w.divisor + column) * b.wide.channels.divisor +
      at.c;
  const bool has_place = (kAxes == 2 || from.d < b.deep.planes.divisor) &&
                         from.h < b.deep.rows.divisor && from.w < b.deep.columns.divisor;
  const float value = has_place ? deep[b.deep.IndexOf(from)] : 0.0F;
  wide[i] = add ? wide[i] + value : value;
}

// Calls run.template operator()<kAxes, Index>() with the shape's number of axes and a type for so
// many elements.
template <typename Run>
cudaError_t WithAxesAndIndex(const DepthShape& s, int64_t n, const Run& run) {
  if (s.axes == 3)
    Fits32(n) ? run.template operator()<3, uint32_t>() : run.template operator()<3, uint64_t>();
  else
    Fits32(n) ? run.template operator()<2, uint32_t>() : run.template operator()<2, uint64_t>();
  return cudaGetLastError();
}

template <int kVec, typename T>
cudaError_t LaunchSpaceToDepth(const DepthShape& s, const T* wide, T* deep, cudaStream_t stream) {
  const int64_t n = s.outer * s.deep_channels * s.deep_d * s.deep_h * s.deep_w;
  return WithAxesAndIndex(s, n, [&]<int kAxes, typename Index>() {
    SpaceToDepthKernel<kAxes, kVec><<<BlocksOf(n / kVec), kThreads, 0, stream>>>(
        DepthBlocks<kAxes, Index>(s), static_cast<Index>(n / kVec), wide, deep);
  });
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
  const int64_t n = s.outer * s.channels * s.d * s.h * s.w;
  return WithAxesAndIndex(s, n, [&]<int kAxes, typename Index>() {
    DepthToSpaceKernel<kAxes><<<BlocksOf(n), kThreads, 0, stream>>>(
        DepthBlocks<kAxes, Index>(s), static_cast<Index>(n), add, deep, wide);
  });
}

}  // namespace neap::kernels

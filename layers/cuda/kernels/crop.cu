// Parts of images and volumes, and images and volumes with zeros around a part. A thread owns
// elements of the result, so both write every element once.
#include "neap/layers/cuda/kernels/device_math.cuh"
#include "neap/layers/cuda/kernels/kernels.h"

namespace neap::kernels {
namespace {

// Numbers along each axis.
struct Extents {
  int64_t d, h, w;
};

// Copies from a volume of {outer, planes, rows, columns, channels} to another that begins at
// `offset` in it. Where the result extends beyond the source, as with negative offsets, it is 0.
// Channels are counted in vectors. With two axes, both are images, of one plane.
template <typename Index>
struct Shifted {
  Index count;  // vectors of the result
  Divider<Index> planes, rows, columns, channels;
  Extents offset;  // position of the result's first element in the source
  Extents from;    // size of the source
};

template <int kAxes, int kVec, typename Index, typename T>
__global__ void __launch_bounds__(kThreads)
    ShiftKernel(Shifted<Index> s, const T* __restrict__ in, T* __restrict__ out) {
  const Index i = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= s.count) return;
  Index channel = 0, column = 0, row = 0, plane = 0;
  Index outer = s.rows.Split(s.columns.Split(s.channels.Split(i, channel), column), row);
  if constexpr (kAxes == 3) outer = s.planes.Split(outer, plane);
  const int64_t d = static_cast<int64_t>(plane) + s.offset.d;
  const int64_t h = static_cast<int64_t>(row) + s.offset.h;
  const int64_t w = static_cast<int64_t>(column) + s.offset.w;
  const bool in_depth = kAxes == 2 || (d >= 0 && d < s.from.d);
  Packed<T, kVec> v = {};
  if (in_depth && h >= 0 && h < s.from.h && w >= 0 && w < s.from.w) {
    int64_t image = static_cast<int64_t>(outer);
    if constexpr (kAxes == 3) image = image * s.from.d + d;
    const int64_t pixel = (image * s.from.h + h) * s.from.w + w;
    v = Read<kVec>(in, static_cast<size_t>(pixel) * s.channels.divisor + channel);
  }
  Write<kVec>(out, i, v);
}

template <int kVec, typename T>
cudaError_t LaunchShift(const CropShape& s, const Extents& from, const Extents& to,
                        const Extents& offset, const T* in, T* out, cudaStream_t stream) {
  const int64_t count = s.outer * to.d * to.h * to.w * (s.channels / kVec);
  if (count == 0) return cudaSuccess;
  const unsigned blocks = static_cast<unsigned>(CeilDiv(count, kThreads));
  const bool is_flat = from.d == 1 && to.d == 1;
  const auto launch = [&]<typename Index>() {
    const Shifted<Index> shifted = {static_cast<Index>(count),
                                    Divider<Index>(to.d),
                                    Divider<Index>(to.h),
                                    Divider<Index>(to.w),
                                    Divider<Index>(s.channels / kVec),
                                    offset,
                                    from};
    is_flat ? ShiftKernel<2, kVec><<<blocks, kThreads, 0, stream>>>(shifted, in, out)
            : ShiftKernel<3, kVec><<<blocks, kThreads, 0, stream>>>(shifted, in, out);
  };
  Fits32(count) ? launch.template operator()<uint32_t>() : launch.template operator()<uint64_t>();
  return cudaGetLastError();
}

cudaError_t Shift(const CropShape& s, const Extents& from, const Extents& to, const Extents& offset,
                  ConstArray in, Array out, cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    const bool wide = AllAligned16(in, out) && s.channels % kWide<T> == 0;
    const auto launch = wide ? LaunchShift<kWide<T>, T> : LaunchShift<1, T>;
    return launch(s, from, to, offset, As<T>(in), As<T>(out), stream);
  };
  return WithElementSize(run, in, out);
}

Extents WholeOf(const CropShape& s) { return {s.d, s.h, s.w}; }
Extents PartOf(const CropShape& s) { return {s.depth, s.height, s.width}; }

}  // namespace

cudaError_t Crop(const CropShape& s, ConstArray whole, Array part, cudaStream_t stream) {
  return Shift(s, WholeOf(s), PartOf(s), {s.front, s.top, s.left}, whole, part, stream);
}

cudaError_t ZeroPad(const CropShape& s, ConstArray part, Array whole, cudaStream_t stream) {
  return Shift(s, PartOf(s), WholeOf(s), {-s.front, -s.top, -s.left}, part, whole, stream);
}

}  // namespace neap::kernels

// Rectangles of images, and images with zeros around a rectangle. A thread owns elements of the
// result, so both write every element once.
#include "neap/layers/cuda/kernels/device_math.cuh"
#include "neap/layers/cuda/kernels/kernels.h"

namespace neap::kernels {
namespace {

// Copies from an image of {outer, rows, columns, channels} to another that begins at (top, left) in
// it. Where the result extends beyond the source, as with negative offsets, it is 0. Channels are
// counted in vectors.
template <typename Index>
struct Shifted {
  Index count;  // vectors of the result
  Divider<Index> rows, columns, channels;
  int64_t top, left;       // position of the result's first element in the source
  int64_t from_h, from_w;  // size of the source
};

template <int kVec, typename Index, typename T>
__global__ void __launch_bounds__(kThreads)
    ShiftKernel(Shifted<Index> s, const T* __restrict__ in, T* __restrict__ out) {
  const Index i = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= s.count) return;
  Index channel = 0, column = 0, row = 0;
  const Index outer = s.rows.Split(s.columns.Split(s.channels.Split(i, channel), column), row);
  const int64_t h = static_cast<int64_t>(row) + s.top;
  const int64_t w = static_cast<int64_t>(column) + s.left;
  Packed<T, kVec> v = {};
  if (h >= 0 && h < s.from_h && w >= 0 && w < s.from_w) {
    const int64_t pixel = (static_cast<int64_t>(outer) * s.from_h + h) * s.from_w + w;
    v = Read<kVec>(in, static_cast<size_t>(pixel) * s.channels.divisor + channel);
  }
  Write<kVec>(out, i, v);
}

struct Extents {
  int64_t h, w;
};

template <int kVec, typename T>
cudaError_t LaunchShift(const CropShape& s, Extents from, Extents to, int64_t top, int64_t left,
                        const T* in, T* out, cudaStream_t stream) {
  const int64_t count = s.outer * to.h * to.w * (s.channels / kVec);
  if (count == 0) return cudaSuccess;
  const unsigned blocks = static_cast<unsigned>(CeilDiv(count, kThreads));
  const auto launch = [&]<typename Index>() {
    const Shifted<Index> shifted = {static_cast<Index>(count),
                                    Divider<Index>(to.h),
                                    Divider<Index>(to.w),
                                    Divider<Index>(s.channels / kVec),
                                    top,
                                    left,
                                    from.h,
                                    from.w};
    ShiftKernel<kVec><<<blocks, kThreads, 0, stream>>>(shifted, in, out);
  };
  Fits32(count) ? launch.template operator()<uint32_t>() : launch.template operator()<uint64_t>();
  return cudaGetLastError();
}

cudaError_t Shift(const CropShape& s, Extents from, Extents to, int64_t top, int64_t left,
                  ConstArray in, Array out, cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    const bool wide = AllAligned16(in, out) && s.channels % kWide<T> == 0;
    const auto launch = wide ? LaunchShift<kWide<T>, T> : LaunchShift<1, T>;
    return launch(s, from, to, top, left, As<T>(in), As<T>(out), stream);
  };
  return WithElementSize(run, in, out);
}

}  // namespace

cudaError_t Crop(const CropShape& s, ConstArray whole, Array part, cudaStream_t stream) {
  return Shift(s, {s.h, s.w}, {s.height, s.width}, s.top, s.left, whole, part, stream);
}

cudaError_t ZeroPad(const CropShape& s, ConstArray part, Array whole, cudaStream_t stream) {
  return Shift(s, {s.height, s.width}, {s.h, s.w}, -s.top, -s.left, part, whole, stream);
}

}  // namespace neap::kernels

// Crops, and their gradients, which are 0 outside the rectangle. A thread owns elements of the
// result, so both kernels write every element once.
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

template <int kVec, typename Index>
__global__ void __launch_bounds__(kThreads)
    ShiftKernel(Shifted<Index> s, const float* __restrict__ in, float* __restrict__ out) {
  const Index i = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= s.count) return;
  Index channel = 0, column = 0, row = 0;
  const Index outer = s.rows.Split(s.columns.Split(s.channels.Split(i, channel), column), row);
  const int64_t h = static_cast<int64_t>(row) + s.top;
  const int64_t w = static_cast<int64_t>(column) + s.left;
  Vec<kVec> v = {};
  if (h >= 0 && h < s.from_h && w >= 0 && w < s.from_w) {
    const int64_t pixel = (static_cast<int64_t>(outer) * s.from_h + h) * s.from_w + w;
    v = At<kVec>(in, static_cast<size_t>(pixel) * s.channels.divisor + channel);
  }
  At<kVec>(out, i) = v;
}

struct Extents {
  int64_t h, w;
};

cudaError_t Shift(const CropShape& s, Extents from, Extents to, int64_t top, int64_t left,
                  const float* in, float* out, cudaStream_t stream) {
  const int vec = AllAligned16(in, static_cast<const float*>(out)) && s.channels % 4 == 0 ? 4 : 1;
  const int64_t count = s.outer * to.h * to.w * (s.channels / vec);
  if (count == 0) return cudaSuccess;
  const unsigned blocks = static_cast<unsigned>(CeilDiv(count, kThreads));
  const auto run = [&]<typename Index>() {
    const Shifted<Index> shifted = {static_cast<Index>(count),
                                    Divider<Index>(to.h),
                                    Divider<Index>(to.w),
                                    Divider<Index>(s.channels / vec),
                                    top,
                                    left,
                                    from.h,
                                    from.w};
    vec == 4 ? ShiftKernel<4, Index><<<blocks, kThreads, 0, stream>>>(shifted, in, out)
             : ShiftKernel<1, Index><<<blocks, kThreads, 0, stream>>>(shifted, in, out);
  };
  Fits32(count) ? run.template operator()<uint32_t>() : run.template operator()<uint64_t>();
  return cudaGetLastError();
}

}  // namespace

cudaError_t Crop(const CropShape& s, const float* x, float* y, cudaStream_t stream) {
  return Shift(s, {s.h, s.w}, {s.height, s.width}, s.top, s.left, x, y, stream);
}

cudaError_t CropBackward(const CropShape& s, const float* dy, float* dx, cudaStream_t stream) {
  return Shift(s, {s.height, s.width}, {s.h, s.w}, -s.top, -s.left, dy, dx, stream);
}

}  // namespace neap::kernels

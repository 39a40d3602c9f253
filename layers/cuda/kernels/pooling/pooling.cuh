// The loops of pooling, which kernels that compute its input or use its gradient share.
//
// Images are {outer, h, w, channels}; NCHW is the case of one channel and N * C images, so both
// layouts share a kernel. Gradients are gathered: a thread owns elements of dx and reads every
// window that covers them, so the order of additions is fixed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "neap/layers/cuda/kernels/device_math.cuh"
#include "neap/layers/cuda/kernels/kernels.h"

namespace neap::kernels {

// The position of a vector in an {outer, h, w, channels} image.
template <typename Index>
struct Position {
  Index outer, row, column, channel;  // channel in vectors
};

template <typename Index>
struct Decoder {
  Decoder(int64_t h, int64_t w, int64_t channel_vectors)
      : rows(h), columns(w), channels(channel_vectors) {}
  __device__ __forceinline__ Position<Index> operator()(Index i) const {
    Position<Index> p;
    p.outer = rows.Split(columns.Split(channels.Split(i, p.channel), p.column), p.row);
    return p;
  }
  Divider<Index> rows, columns, channels;
};

template <int kVec, typename I>
struct alignas(AlignmentOf(sizeof(I) * kVec)) Indices {
  I v[kVec];
};

// Strides of rows, pixels and images, in vectors.
struct Strides {
  size_t image, row, pixel;
};
__device__ __forceinline__ Strides VectorStrides(int h, int w, size_t channel_vectors) {
  return {static_cast<size_t>(h) * w * channel_vectors, w * channel_vectors, channel_vectors};
}

// What is pooled is x as it is.
struct AsItIs {
  static constexpr bool kRelu = false;
  struct Nothing {};
  template <int kVec>
  __device__ Nothing Prepare(size_t) const {
    return {};
  }
  template <int kVec>
  __device__ void Apply(Nothing, Vec<kVec>&) const {}
};

// The maximum of the elements before, lane by lane, and where it is in the window.
template <int kVec, typename I>
struct Maximum {
  Vec<kVec> best;
  Indices<kVec, I> where;
  bool none = true;
  __device__ __forceinline__ void Take(const Vec<kVec>& v, I here) {
#pragma unroll
    for (int k = 0; k < kVec; ++k) {
      // The first NaN stays: no number is larger, and a second NaN does not replace it.
      if (none || v.v[k] > best.v[k] || (isnan(v.v[k]) && !isnan(best.v[k]))) {
        best.v[k] = v.v[k];
        where.v[k] = here;
      }
    }
    none = false;
  }
};

// Divisions by numbers of both axes.
struct AxisDividers {
  AxisDividers(int height, int width) : h(height), w(width) {}
  Divider<uint32_t> h, w;
};
struct WindowDividers {
  explicit WindowDividers(const PoolShape& s)
      : stride(s.stride_h, s.stride_w), dilation(s.dilation_h, s.dilation_w) {}
  AxisDividers stride, dilation;
};

// The elements of a window that begins at `begin` which are before `end`, along one axis.
__device__ __forceinline__ int ElementsBefore(int end, int begin, int kernel,
                                              const Divider<uint32_t>& dilation) {
  if (end <= begin) return 0;
  return min(kernel,
             static_cast<int>(dilation.Quotient(static_cast<uint32_t>(end - begin - 1))) + 1);
}

// What is pooled is computed from x by `before`: Prepare(c) gives what Apply() needs for a vector
// whose first channel is c. If it ends with a ReLU, the index says where the ReLU passes no
// gradient. `channels` is the number of channels that images take turns in (NCHW), or 1. kSide is
// the side of square windows without dilation, whose loads then overlap, or 0 for any.
template <int kVec, int kSide, typename Before, typename T, typename I>
__global__ void __launch_bounds__(kThreads)
    MaxPoolKernel(PoolShape s, AxisDividers dilation, Decoder<uint32_t> decode, uint32_t outputs,
                  Before before, uint32_t channels, const T* __restrict__ x, T* __restrict__ y,
                  I* __restrict__ index) {
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= outputs) return;
  const Position<uint32_t> p = decode(i);
  const Strides in = VectorStrides(s.h, s.w, static_cast<size_t>(s.channels / kVec));
  const int top = static_cast<int>(p.row) * s.stride_h - s.padding_h;
  const int left = static_cast<int>(p.column) * s.stride_w - s.padding_w;
  const size_t base = p.outer * in.image + p.channel;
  const auto constants = before.template Prepare<kVec>(
      channels == 1 ? static_cast<size_t>(p.channel) * kVec : p.outer % channels);
  const auto load = [&](int kh, int kw) {
    const int row = kSide > 0 ? top + kh : top + kh * s.dilation_h;
    const int column = kSide > 0 ? left + kw : left + kw * s.dilation_w;
    return Read<kVec>(
        x, base + static_cast<size_t>(row) * in.row + static_cast<size_t>(column) * in.pixel);
  };
  Maximum<kVec, I> maximum;
  const auto take = [&](const Packed<T, kVec>& loaded, int kh, int kw) {
    Vec<kVec> v = Unpack(loaded);
    before.Apply(constants, v);
    maximum.Take(v, static_cast<I>(kh * s.kernel_w + kw));
  };
  if constexpr (kSide > 0) {
    const auto inside = [&](int n) {
      const int h = top + n / kSide, w = left + n % kSide;
      return h >= 0 && h < s.h && w >= 0 && w < s.w;
    };
    Packed<T, kVec> loaded[kSide * kSide];
#pragma unroll
    for (int n = 0; n < kSide * kSide; ++n) {
      if (inside(n)) loaded[n] = load(n / kSide, n % kSide);
    }
#pragma unroll
    for (int n = 0; n < kSide * kSide; ++n) {
      if (inside(n)) take(loaded[n], n / kSide, n % kSide);
    }
  } else {
    const int last_h = ElementsBefore(s.h, top, s.kernel_h, dilation.h);
    const int last_w = ElementsBefore(s.w, left, s.kernel_w, dilation.w);
    const int first_w = ElementsBefore(0, left, s.kernel_w, dilation.w);
    for (int kh = ElementsBefore(0, top, s.kernel_h, dilation.h); kh < last_h; ++kh) {
      for (int kw = first_w; kw < last_w; ++kw) take(load(kh, kw), kh, kw);
    }
  }
  Write<kVec>(y, i, maximum.best);
  if constexpr (Before::kRelu) {
#pragma unroll
    for (int k = 0; k < kVec; ++k) {
      if (maximum.best.v[k] <= 0) maximum.where.v[k] = static_cast<I>(kStopsAtRelu);
    }
  }
  if (index != nullptr) reinterpret_cast<Indices<kVec, I>*>(index)[i] = maximum.where;
}

// Chooses the vector width for a tensor of elements of type T: launch.template
// operator()<kVec>(decoder, count, blocks, first), for the images from number `first`, which is a
// multiple of `together`. One launch has all images, unless their vectors are too many for 32-bit
// numbers.
template <typename T, typename Launch>
cudaError_t ForEach(int64_t outer, int64_t h, int64_t w, int64_t channels, bool aligned,
                    const Launch& launch, int64_t together = 1) {
  const int vec = aligned && channels % kWide<T> == 0 ? kWide<T> : 1;
  const int64_t in_image = h * w * (channels / vec);
  if (outer * in_image == 0) return cudaSuccess;
  if (!Fits32(together * in_image)) return cudaErrorInvalidValue;
  const int64_t most = kMaxLaunchVectors / (together * in_image) * together;
  const int64_t images = std::max(most, together);
  const Decoder<uint32_t> decode(h, w, channels / vec);
  for (int64_t first = 0; first < outer; first += images) {
    const int64_t count = std::min(images, outer - first) * in_image;
    const unsigned blocks = static_cast<unsigned>(CeilDiv(count, kThreads));
    const uint32_t n = static_cast<uint32_t>(count);
    vec == 1 ? launch.template operator()<1>(decode, n, blocks, first)
             : launch.template operator()<kWide<T>>(decode, n, blocks, first);
  }
  return cudaGetLastError();
}
// The elements of an image of the pool's input, and of its output.
inline int64_t InImage(const PoolShape& s) { return int64_t{s.h} * s.w * s.channels; }
inline int64_t OutImage(const PoolShape& s) { return int64_t{s.out_h} * s.out_w * s.channels; }

inline bool IsDilated(const PoolShape& s) { return s.dilation_h > 1 || s.dilation_w > 1; }

// Pools what `before` computes from x, in images of `image_channels` channels.
template <typename T, typename I, typename Before>
cudaError_t LaunchMaxPool(const PoolShape& s, int64_t image_channels, const Before& before,
                          bool aligned, const T* x, T* y, I* index, cudaStream_t stream) {
  const uint32_t turns = s.channels == image_channels ? 1 : static_cast<uint32_t>(image_channels);
  return ForEach<T>(
      s.outer, s.out_h, s.out_w, s.channels, aligned && AllAligned16(x, y, index),
      [&]<int kVec>(const Decoder<uint32_t>& decode, uint32_t n, unsigned blocks, int64_t first) {
        const int64_t out = first * OutImage(s);
        const auto run = [&]<int kSide>() {
          MaxPoolKernel<kVec, kSide><<<blocks, kThreads, 0, stream>>>(
              s, AxisDividers(s.dilation_h, s.dilation_w), decode, n, before, turns,
              x + first * InImage(s), y + out, index == nullptr ? nullptr : index + out);
        };
        if constexpr (kVec > 1) {
          const int side = s.kernel_h == s.kernel_w && !IsDilated(s) ? s.kernel_h : 0;
          if (side == 2) return run.template operator()<2>();
          if (side == 3) return run.template operator()<3>();
        }
        run.template operator()<0>();
      },
      turns);
}

// The windows that reach over position `at`: [first, last).
struct Windows {
  int first, last;
};
__device__ __forceinline__ Windows Covering(int at, int reach, const Divider<uint32_t>& stride,
                                            int padding, int out) {
  const int end = at + padding;
  const int first =
      end < reach ? 0 : static_cast<int>(stride.Quotient(static_cast<uint32_t>(end - reach))) + 1;
  return {first, min(static_cast<int>(stride.Quotient(static_cast<uint32_t>(end))) + 1, out)};
}
__device__ __forceinline__ int Reach(int kernel, int dilation) {
  return (kernel - 1) * dilation + 1;
}
// Where the position that is `distance` behind a window's first one is in the window, or -1 if it
// is between two elements.
__device__ __forceinline__ int ElementAt(int distance, const Divider<uint32_t>& dilation) {
  uint32_t between;
  const uint32_t element = dilation.Split(static_cast<uint32_t>(distance), between);
  return between == 0 ? static_cast<int>(element) : -1;
}

// The gradient of the max pool's input at one position: that of every window of which it is the
// maximum. `base` is the offset of its image and channel in dy, in vectors.
template <int kVec, typename T, typename I>
__device__ __forceinline__ Vec<kVec> GatherGradient(const PoolShape& s, const WindowDividers& by,
                                                    size_t base, int row, int column, const T* dy,
                                                    const I* index) {
  const Strides out = VectorStrides(s.out_h, s.out_w, static_cast<size_t>(s.channels / kVec));
  const Windows rows =
      Covering(row, Reach(s.kernel_h, s.dilation_h), by.stride.h, s.padding_h, s.out_h);
  const Windows columns =
      Covering(column, Reach(s.kernel_w, s.dilation_w), by.stride.w, s.padding_w, s.out_w);
  Vec<kVec> sum = {};
  for (int oh = rows.first; oh < rows.last; ++oh) {
    const int kh = ElementAt(row + s.padding_h - oh * s.stride_h, by.dilation.h);
    if (kh < 0) continue;
    for (int ow = columns.first; ow < columns.last; ++ow) {
      const int kw = ElementAt(column + s.padding_w - ow * s.stride_w, by.dilation.w);
      if (kw < 0) continue;
      const size_t at =
          base + static_cast<size_t>(oh) * out.row + static_cast<size_t>(ow) * out.pixel;
      const int within = kh * s.kernel_w + kw;
      const Indices<kVec, I> winner = reinterpret_cast<const Indices<kVec, I>*>(index)[at];
      const Vec<kVec> g = Unpack(Read<kVec>(dy, at));
#pragma unroll
      for (int k = 0; k < kVec; ++k) {
        if (static_cast<int>(winner.v[k]) == within) sum.v[k] += g.v[k];
      }
    }
  }
  return sum;
}

}  // namespace neap::kernels

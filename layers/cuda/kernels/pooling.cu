// Pooling. Images are {outer, h, w, channels}; NCHW is the case of one channel and N * C images, so
// both layouts share a kernel. Gradients are gathered: a thread owns elements of dx and reads every
// window that covers them, so the order of additions is fixed.
#include <algorithm>

#include "neap/layers/cuda/kernels/device_math.cuh"
#include "neap/layers/cuda/kernels/kernels.h"

namespace neap::kernels {
namespace {

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

template <int kVec, typename Index, typename T, typename I>
__global__ void __launch_bounds__(kThreads)
    MaxPoolKernel(PoolShape s, Decoder<Index> decode, Index outputs, const T* __restrict__ x,
                  T* __restrict__ y, I* __restrict__ index) {
  const Index i = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= outputs) return;
  const Position<Index> p = decode(i);
  const Strides in = VectorStrides(s.h, s.w, static_cast<size_t>(s.channels / kVec));
  const int top = static_cast<int>(p.row) * s.stride_h - s.padding_h;
  const int left = static_cast<int>(p.column) * s.stride_w - s.padding_w;
  const int first_h = max(0, -top), last_h = min(s.kernel_h, s.h - top);
  const int first_w = max(0, -left), last_w = min(s.kernel_w, s.w - left);
  const size_t base = p.outer * in.image + p.channel;
  Vec<kVec> best;
  Indices<kVec, I> where;
  bool none = true;
  for (int kh = first_h; kh < last_h; ++kh) {
    for (int kw = first_w; kw < last_w; ++kw) {
      const Vec<kVec> v = Unpack(Read<kVec>(x, base + static_cast<size_t>(top + kh) * in.row +
                                                   static_cast<size_t>(left + kw) * in.pixel));
      const I here = static_cast<I>(kh * s.kernel_w + kw);
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
  }
  Write<kVec>(y, i, best);
  if (index != nullptr) reinterpret_cast<Indices<kVec, I>*>(index)[i] = where;
}

// The windows that cover position `at`: [first, last).
struct Windows {
  int first, last;
};
__device__ __forceinline__ Windows Covering(int at, int kernel, const Divider<uint32_t>& stride,
                                            int padding, int out) {
  const int end = at + padding;
  const int first =
      end < kernel ? 0 : static_cast<int>(stride.Quotient(static_cast<uint32_t>(end - kernel))) + 1;
  return {first, min(static_cast<int>(stride.Quotient(static_cast<uint32_t>(end))) + 1, out)};
}
struct StrideDividers {
  explicit StrideDividers(const PoolShape& s) : h(s.stride_h), w(s.stride_w) {}
  Divider<uint32_t> h, w;
};

template <int kVec, typename Index, typename T, typename I>
__global__ void __launch_bounds__(kThreads)
    MaxPoolBackwardKernel(PoolShape s, StrideDividers stride, Decoder<Index> decode, Index inputs,
                          const T* __restrict__ dy, const I* __restrict__ index,
                          T* __restrict__ dx) {
  const Index i = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= inputs) return;
  const Position<Index> p = decode(i);
  const Strides out = VectorStrides(s.out_h, s.out_w, static_cast<size_t>(s.channels / kVec));
  const int row = static_cast<int>(p.row), column = static_cast<int>(p.column);
  const Windows rows = Covering(row, s.kernel_h, stride.h, s.padding_h, s.out_h);
  const Windows columns = Covering(column, s.kernel_w, stride.w, s.padding_w, s.out_w);
  const size_t base = p.outer * out.image + p.channel;
  Vec<kVec> sum = {};
  for (int oh = rows.first; oh < rows.last; ++oh) {
    for (int ow = columns.first; ow < columns.last; ++ow) {
      const size_t at =
          base + static_cast<size_t>(oh) * out.row + static_cast<size_t>(ow) * out.pixel;
      const int within = (row + s.padding_h - oh * s.stride_h) * s.kernel_w + column + s.padding_w -
                         ow * s.stride_w;
      const Indices<kVec, I> winner = reinterpret_cast<const Indices<kVec, I>*>(index)[at];
      const Vec<kVec> g = Unpack(Read<kVec>(dy, at));
#pragma unroll
      for (int k = 0; k < kVec; ++k) {
        if (static_cast<int>(winner.v[k]) == within) sum.v[k] += g.v[k];
      }
    }
  }
  Write<kVec>(dx, i, sum);
}

// The number of elements in the mean of the window whose first element is at (top, left).
__device__ __forceinline__ float WindowSize(const PoolShape& s, int top, int left) {
  if (s.count_padding) return static_cast<float>(s.kernel_h * s.kernel_w);
  const int height = min(s.h, top + s.kernel_h) - max(0, top);
  const int width = min(s.w, left + s.kernel_w) - max(0, left);
  return static_cast<float>(height * width);
}

template <int kVec, typename Index, typename T>
__global__ void __launch_bounds__(kThreads)
    AveragePoolKernel(PoolShape s, Decoder<Index> decode, Index outputs, const T* __restrict__ x,
                      T* __restrict__ y) {
  const Index i = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= outputs) return;
  const Position<Index> p = decode(i);
  const Strides in = VectorStrides(s.h, s.w, static_cast<size_t>(s.channels / kVec));
  const int top = static_cast<int>(p.row) * s.stride_h - s.padding_h;
  const int left = static_cast<int>(p.column) * s.stride_w - s.padding_w;
  const size_t base = p.outer * in.image + p.channel;
  Vec<kVec> sum = {};
  for (int h = max(0, top); h < min(s.h, top + s.kernel_h); ++h) {
    for (int w = max(0, left); w < min(s.w, left + s.kernel_w); ++w) {
      const Vec<kVec> v = Unpack(Read<kVec>(
          x, base + static_cast<size_t>(h) * in.row + static_cast<size_t>(w) * in.pixel));
#pragma unroll
      for (int k = 0; k < kVec; ++k) sum.v[k] += v.v[k];
    }
  }
  const float size = WindowSize(s, top, left);
#pragma unroll
  for (float& f : sum.v) f /= size;
  Write<kVec>(y, i, sum);
}

template <int kVec, typename Index, typename T>
__global__ void __launch_bounds__(kThreads)
    AveragePoolBackwardKernel(PoolShape s, StrideDividers stride, Decoder<Index> decode,
                              Index inputs, const T* __restrict__ dy, T* __restrict__ dx) {
  const Index i = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= inputs) return;
  const Position<Index> p = decode(i);
  const Strides out = VectorStrides(s.out_h, s.out_w, static_cast<size_t>(s.channels / kVec));
  const Windows rows =
      Covering(static_cast<int>(p.row), s.kernel_h, stride.h, s.padding_h, s.out_h);
  const Windows columns =
      Covering(static_cast<int>(p.column), s.kernel_w, stride.w, s.padding_w, s.out_w);
  const size_t base = p.outer * out.image + p.channel;
  Vec<kVec> sum = {};
  for (int oh = rows.first; oh < rows.last; ++oh) {
    for (int ow = columns.first; ow < columns.last; ++ow) {
      const Vec<kVec> g = Unpack(Read<kVec>(
          dy, base + static_cast<size_t>(oh) * out.row + static_cast<size_t>(ow) * out.pixel));
      const float size =
          WindowSize(s, oh * s.stride_h - s.padding_h, ow * s.stride_w - s.padding_w);
#pragma unroll
      for (int k = 0; k < kVec; ++k) sum.v[k] += g.v[k] / size;
    }
  }
  Write<kVec>(dx, i, sum);
}

// Chooses vector width and index type for a tensor of elements of type T: launch.template
// operator()<kVec, Index>(decoder, count, blocks).
template <typename T, typename Launch>
cudaError_t ForEach(int64_t outer, int64_t h, int64_t w, int64_t channels, bool aligned,
                    const Launch& launch) {
  const int vec = aligned && channels % kWide<T> == 0 ? kWide<T> : 1;
  const int64_t count = outer * h * w * (channels / vec);
  if (count == 0) return cudaSuccess;
  const unsigned blocks = static_cast<unsigned>(CeilDiv(count, kThreads));
  const auto run = [&]<typename Index>() {
    const Decoder<Index> decode(h, w, channels / vec);
    const Index n = static_cast<Index>(count);
    vec == 1 ? launch.template operator()<1, Index>(decode, n, blocks)
             : launch.template operator()<kWide<T>, Index>(decode, n, blocks);
  };
  Fits32(count) ? run.template operator()<uint32_t>() : run.template operator()<uint64_t>();
  return cudaGetLastError();
}

template <typename I>
cudaError_t LaunchMaxPool(const PoolShape& s, ConstArray x, Array y, I* index,
                          cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    return ForEach<T>(
        s.outer, s.out_h, s.out_w, s.channels, AllAligned16(x, y, index),
        [&]<int kVec, typename Index>(const Decoder<Index>& decode, Index n, unsigned blocks) {
          MaxPoolKernel<kVec>
              <<<blocks, kThreads, 0, stream>>>(s, decode, n, As<T>(x), As<T>(y), index);
        });
  };
  return WithElement(run, x, y);
}

template <typename I>
cudaError_t LaunchMaxPoolBackward(const PoolShape& s, ConstArray dy, const I* index, Array dx,
                                  cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    return ForEach<T>(
        s.outer, s.h, s.w, s.channels, AllAligned16(dy, dx, index),
        [&]<int kVec, typename Index>(const Decoder<Index>& decode, Index n, unsigned blocks) {
          MaxPoolBackwardKernel<kVec><<<blocks, kThreads, 0, stream>>>(
              s, StrideDividers(s), decode, n, As<T>(dy), index, As<T>(dx));
        });
  };
  return WithElement(run, dy, dx);
}

}  // namespace

cudaError_t MaxPool(const PoolShape& s, ConstArray x, Array y, void* index, bool wide_index,
                    cudaStream_t stream) {
  return wide_index ? LaunchMaxPool(s, x, y, static_cast<int32_t*>(index), stream)
                    : LaunchMaxPool(s, x, y, static_cast<uint8_t*>(index), stream);
}

cudaError_t MaxPoolBackward(const PoolShape& s, ConstArray dy, const void* index, bool wide_index,
                            Array dx, cudaStream_t stream) {
  return wide_index ? LaunchMaxPoolBackward(s, dy, static_cast<const int32_t*>(index), dx, stream)
                    : LaunchMaxPoolBackward(s, dy, static_cast<const uint8_t*>(index), dx, stream);
}

cudaError_t AveragePool(const PoolShape& s, ConstArray x, Array y, cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    return ForEach<T>(
        s.outer, s.out_h, s.out_w, s.channels, AllAligned16(x, y),
        [&]<int kVec, typename Index>(const Decoder<Index>& decode, Index n, unsigned blocks) {
          AveragePoolKernel<kVec>
              <<<blocks, kThreads, 0, stream>>>(s, decode, n, As<T>(x), As<T>(y));
        });
  };
  return WithElement(run, x, y);
}

cudaError_t AveragePoolBackward(const PoolShape& s, ConstArray dy, Array dx, cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    return ForEach<T>(
        s.outer, s.h, s.w, s.channels, AllAligned16(dy, dx),
        [&]<int kVec, typename Index>(const Decoder<Index>& decode, Index n, unsigned blocks) {
          AveragePoolBackwardKernel<kVec><<<blocks, kThreads, 0, stream>>>(
              s, StrideDividers(s), decode, n, As<T>(dy), As<T>(dx));
        });
  };
  return WithElement(run, dy, dx);
}

}  // namespace neap::kernels

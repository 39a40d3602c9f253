// Pooling (kernels/pooling.cuh).
#include "neap/layers/cuda/kernels/kernels.h"
#include "neap/layers/cuda/kernels/pooling.cuh"

namespace neap::kernels {
namespace {

template <int kVec, typename Index, typename T, typename I>
__global__ void __launch_bounds__(kThreads)
    MaxPoolBackwardKernel(PoolShape s, StrideDividers stride, Decoder<Index> decode, Index inputs,
                          const T* __restrict__ dy, const I* __restrict__ index,
                          T* __restrict__ dx) {
  const Index i = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= inputs) return;
  const Position<Index> p = decode(i);
  const size_t image = static_cast<size_t>(s.out_h) * s.out_w * (s.channels / kVec);
  Write<kVec>(dx, i,
              GatherGradient<kVec>(s, stride, p.outer * image + p.channel, static_cast<int>(p.row),
                                   static_cast<int>(p.column), dy, index));
}

// The number of elements in the mean of the window whose first element is at (top, left). Windows
// in ceil_mode may pass the end of the padding.
__device__ __forceinline__ float WindowSize(const PoolShape& s, int top, int left) {
  if (s.count_padding) {
    return static_cast<float>(min(s.kernel_h, s.h + s.padding_h - top) *
                              min(s.kernel_w, s.w + s.padding_w - left));
  }
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
  const auto run = [&]<typename T>() {
    const auto launch = [&]<typename I>(I* at) {
      return LaunchMaxPool(s, s.channels, AsItIs{}, true, As<T>(x), As<T>(y), at, stream);
    };
    return wide_index ? launch(static_cast<int32_t*>(index)) : launch(static_cast<uint8_t*>(index));
  };
  return WithElement(run, x, y);
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

// Pooling (kernels/pooling.cuh).
#include "neap/layers/cuda/kernels/kernels.h"
#include "neap/layers/cuda/kernels/pooling/pooling.cuh"

namespace neap::kernels {
namespace {

template <int kVec, typename T, typename I>
__global__ void __launch_bounds__(kThreads)
    MaxPoolBackwardKernel(PoolShape s, WindowDividers by, Decoder<uint32_t> decode, uint32_t inputs,
                          const T* __restrict__ dy, const I* __restrict__ index,
                          T* __restrict__ dx) {
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= inputs) return;
  const Position<uint32_t> p = decode(i);
  const size_t image = static_cast<size_t>(s.out_h) * s.out_w * (s.channels / kVec);
  Write<kVec>(dx, i,
              GatherGradient<kVec>(s, by, p.outer * image + p.channel, static_cast<int>(p.row),
                                   static_cast<int>(p.column), dy, index));
}

// The number of elements in the mean of the window whose first element is at (top, left). Windows
// in ceil_mode may pass the end of the padding.
__device__ __forceinline__ float WindowSize(const PoolShape& s, const AxisDividers& dilation,
                                            int top, int left) {
  if (s.count_padding) {
    return static_cast<float>(ElementsBefore(s.h + s.padding_h, top, s.kernel_h, dilation.h) *
                              ElementsBefore(s.w + s.padding_w, left, s.kernel_w, dilation.w));
  }
  const int height = ElementsBefore(s.h, top, s.kernel_h, dilation.h) -
                     ElementsBefore(0, top, s.kernel_h, dilation.h);
  const int width = ElementsBefore(s.w, left, s.kernel_w, dilation.w) -
                    ElementsBefore(0, left, s.kernel_w, dilation.w);
  return static_cast<float>(height * width);
}

template <int kVec, typename T>
__global__ void __launch_bounds__(kThreads)
    AveragePoolKernel(PoolShape s, AxisDividers dilation, Decoder<uint32_t> decode,
                      uint32_t outputs, const T* __restrict__ x, T* __restrict__ y) {
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= outputs) return;
  const Position<uint32_t> p = decode(i);
  const Strides in = VectorStrides(s.h, s.w, static_cast<size_t>(s.channels / kVec));
  const int top = static_cast<int>(p.row) * s.stride_h - s.padding_h;
  const int left = static_cast<int>(p.column) * s.stride_w - s.padding_w;
  const size_t base = p.outer * in.image + p.channel;
  Vec<kVec> sum = {};
  const int first_h = ElementsBefore(0, top, s.kernel_h, dilation.h);
  const int first_w = ElementsBefore(0, left, s.kernel_w, dilation.w);
  const int last_h = ElementsBefore(s.h, top, s.kernel_h, dilation.h);
  const int last_w = ElementsBefore(s.w, left, s.kernel_w, dilation.w);
  for (int kh = first_h; kh < last_h; ++kh) {
    for (int kw = first_w; kw < last_w; ++kw) {
      const Vec<kVec> v =
          Unpack(Read<kVec>(x, base + static_cast<size_t>(top + kh * s.dilation_h) * in.row +
                                   static_cast<size_t>(left + kw * s.dilation_w) * in.pixel));
#pragma unroll
      for (int k = 0; k < kVec; ++k) sum.v[k] += v.v[k];
    }
  }
  const float size = WindowSize(s, dilation, top, left);
#pragma unroll
  for (float& f : sum.v) f /= size;
  Write<kVec>(y, i, sum);
}

template <int kVec, typename T>
__global__ void __launch_bounds__(kThreads)
    AveragePoolBackwardKernel(PoolShape s, WindowDividers by, Decoder<uint32_t> decode,
                              uint32_t inputs, const T* __restrict__ dy, T* __restrict__ dx) {
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= inputs) return;
  const Position<uint32_t> p = decode(i);
  const Strides out = VectorStrides(s.out_h, s.out_w, static_cast<size_t>(s.channels / kVec));
  const int row = static_cast<int>(p.row), column = static_cast<int>(p.column);
  const Windows rows =
      Covering(row, Reach(s.kernel_h, s.dilation_h), by.stride.h, s.padding_h, s.out_h);
  const Windows columns =
      Covering(column, Reach(s.kernel_w, s.dilation_w), by.stride.w, s.padding_w, s.out_w);
  const size_t base = p.outer * out.image + p.channel;
  Vec<kVec> sum = {};
  for (int oh = rows.first; oh < rows.last; ++oh) {
    const int top = oh * s.stride_h - s.padding_h;
    if (ElementAt(row - top, by.dilation.h) < 0) continue;
    for (int ow = columns.first; ow < columns.last; ++ow) {
      const int left = ow * s.stride_w - s.padding_w;
      if (ElementAt(column - left, by.dilation.w) < 0) continue;
      const Vec<kVec> g = Unpack(Read<kVec>(
          dy, base + static_cast<size_t>(oh) * out.row + static_cast<size_t>(ow) * out.pixel));
      const float size = WindowSize(s, by.dilation, top, left);
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
        [&]<int kVec>(const Decoder<uint32_t>& decode, uint32_t n, unsigned blocks, int64_t first) {
          MaxPoolBackwardKernel<kVec><<<blocks, kThreads, 0, stream>>>(
              s, WindowDividers(s), decode, n, As<T>(dy) + first * OutImage(s),
              index + first * OutImage(s), As<T>(dx) + first * InImage(s));
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
        [&]<int kVec>(const Decoder<uint32_t>& decode, uint32_t n, unsigned blocks, int64_t first) {
          AveragePoolKernel<kVec><<<blocks, kThreads, 0, stream>>>(
              s, AxisDividers(s.dilation_h, s.dilation_w), decode, n, As<T>(x) + first * InImage(s),
              As<T>(y) + first * OutImage(s));
        });
  };
  return WithElement(run, x, y);
}

cudaError_t AveragePoolBackward(const PoolShape& s, ConstArray dy, Array dx, cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    return ForEach<T>(
        s.outer, s.h, s.w, s.channels, AllAligned16(dy, dx),
        [&]<int kVec>(const Decoder<uint32_t>& decode, uint32_t n, unsigned blocks, int64_t first) {
          AveragePoolBackwardKernel<kVec><<<blocks, kThreads, 0, stream>>>(
              s, WindowDividers(s), decode, n, As<T>(dy) + first * OutImage(s),
              As<T>(dx) + first * InImage(s));
        });
  };
  return WithElement(run, dy, dx);
}

}  // namespace neap::kernels

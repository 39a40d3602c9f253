// Learned positions, and a learned token before all others.
#include <algorithm>

#include "neap/layers/cuda/kernels/device_math.cuh"
#include "neap/layers/cuda/kernels/tokens/tokens.h"

namespace neap::kernels {
namespace {

constexpr int64_t kMaxRows = 65535;  // of a grid

// A thread reads its vector of the weight once, for every gridDim.y-th example.
template <typename T, int kVec>
__global__ void __launch_bounds__(kThreads)
    AddPositionsKernel(size_t examples, size_t vectors, const T* x, const T* weight, T* y) {
  const size_t i = static_cast<size_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= vectors) return;
  const Vec<kVec> added = Unpack(Read<kVec>(weight, i));
  for (size_t n = blockIdx.y; n < examples; n += gridDim.y) {
    Vec<kVec> v = Unpack(Read<kVec>(x, n * vectors + i));
#pragma unroll
    for (int k = 0; k < kVec; ++k) v.v[k] += added.v[k];
    Write<kVec>(y, n * vectors + i, v);
  }
}

// A thread sums its vector over the examples. dx is null where it is dy.
template <typename T, int kVec>
__global__ void __launch_bounds__(kThreads)
    SumPositionsKernel(size_t examples, size_t vectors, const T* dy, T* dx, float* dweight,
                       bool add) {
  const size_t i = static_cast<size_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= vectors) return;
  Vec<kVec> sum = {};
  if (add) sum = ReadFloats<kVec>(dweight, i);
  for (size_t n = 0; n < examples; ++n) {
    const Packed<T, kVec> packed = Read<kVec>(dy, n * vectors + i);
    if (dx != nullptr) Write<kVec>(dx, n * vectors + i, packed);
    const Vec<kVec> v = Unpack(packed);
#pragma unroll
    for (int k = 0; k < kVec; ++k) sum.v[k] += v.v[k];
  }
  Write<kVec>(dweight, i, sum);
}

// The elements of {N, C, T + 1}, or with channels last {N, T + 1, C}, as those of the token and of
// x.
struct PrependedAt {
  explicit PrependedAt(const ChannelShape& s)
      : channels(static_cast<size_t>(s.channels)),
        positions(static_cast<size_t>(s.inner) + 1),
        last(s.channels_last) {}
  // The channel, and the element of x, of an element of y. False for those of the token.
  __device__ bool Find(size_t i, size_t& channel, size_t& of_x) const {
    const size_t inner = last ? channels : positions, row = i / inner, column = i % inner;
    channel = last ? column : row % channels;
    const size_t position = last ? row % positions : column;
    const size_t example = row / (last ? positions : channels);
    if (position == 0) return false;
    const size_t before = last ? (example + 1) * channels : row + 1;  // elements of tokens
    of_x = i - before;
    return true;
  }
  // The element of the token of an example.
  __device__ size_t Token(size_t example, size_t channel) const {
    return example * channels * positions + channel * (last ? 1 : positions);
  }
  size_t channels, positions;
  bool last;
};

template <typename T>
__global__ void __launch_bounds__(kThreads)
    PrependKernel(PrependedAt at, size_t n, const T* x, const T* weight, T* y) {
  const size_t i = static_cast<size_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  size_t channel = 0, of_x = 0;
  y[i] = at.Find(i, channel, of_x) ? x[of_x] : weight[channel];
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    PrependBackwardKernel(PrependedAt at, size_t n, const T* dy, T* dx) {
  const size_t i = static_cast<size_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  size_t channel = 0, of_x = 0;
  if (at.Find(i, channel, of_x)) dx[of_x] = dy[i];
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    SumTokens(PrependedAt at, size_t examples, const T* dy, float* dweight, bool add) {
  const size_t c = static_cast<size_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (c >= at.channels) return;
  float sum = add ? dweight[c] : 0.0F;
  for (size_t n = 0; n < examples; ++n) sum += ToFloat(dy[at.Token(n, c)]);
  dweight[c] = sum;
}

// The number of elements of y.
int64_t PrependedElements(const ChannelShape& x) { return x.outer * x.channels * (x.inner + 1); }

}  // namespace

cudaError_t AddPositions(int64_t examples, int64_t of_example, ConstArray x, ConstArray weight,
                         Array y, cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    const auto launch = [&]<int kVec>() {
      const int64_t vectors = of_example / kVec;
      const dim3 grid(BlocksOf(vectors), static_cast<unsigned>(std::min(examples, kMaxRows)));
      AddPositionsKernel<T, kVec><<<grid, kThreads, 0, stream>>>(static_cast<size_t>(examples),
                                                                 static_cast<size_t>(vectors),
                                                                 As<T>(x), As<T>(weight), As<T>(y));
      return cudaGetLastError();
    };
    const bool wide = of_example % kWide<T> == 0 && AllAligned16(x, weight, y);
    return wide ? launch.template operator()<kWide<T>>() : launch.template operator()<1>();
  };
  return WithElement(run, x, weight, y);
}

cudaError_t AddPositionsBackward(int64_t examples, int64_t of_example, ConstArray dy, Array dx,
                                 float* dweight, bool add, cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    T* const copy = dx.data == dy.data ? nullptr : As<T>(dx);
    const auto launch = [&]<int kVec>() {
      const int64_t vectors = of_example / kVec;
      SumPositionsKernel<T, kVec><<<BlocksOf(vectors), kThreads, 0, stream>>>(
          static_cast<size_t>(examples), static_cast<size_t>(vectors), As<T>(dy), copy, dweight,
          add);
      return cudaGetLastError();
    };
    const bool wide = of_example % kWide<T> == 0 && AllAligned16(dy, dx, dweight);
    return wide ? launch.template operator()<kWide<T>>() : launch.template operator()<1>();
  };
  return WithElement(run, dy, dx);
}

cudaError_t PrependToken(const ChannelShape& s, ConstArray x, ConstArray weight, Array y,
                         cudaStream_t stream) {
  const int64_t n = PrependedElements(s);
  const auto run = [&]<typename T>() {
    PrependKernel<<<BlocksOf(n), kThreads, 0, stream>>>(PrependedAt(s), static_cast<size_t>(n),
                                                        As<T>(x), As<T>(weight), As<T>(y));
    return cudaGetLastError();
  };
  return WithElement(run, x, weight, y);
}

cudaError_t PrependTokenBackward(const ChannelShape& s, ConstArray dy, Array dx, float* dweight,
                                 bool add, cudaStream_t stream) {
  const int64_t n = PrependedElements(s);
  const auto run = [&]<typename T>() {
    PrependBackwardKernel<<<BlocksOf(n), kThreads, 0, stream>>>(
        PrependedAt(s), static_cast<size_t>(n), As<T>(dy), As<T>(dx));
    SumTokens<<<BlocksOf(s.channels), kThreads, 0, stream>>>(
        PrependedAt(s), static_cast<size_t>(s.outer), As<T>(dy), dweight, add);
    return cudaGetLastError();
  };
  return WithElement(run, dy, dx);
}

}  // namespace neap::kernels

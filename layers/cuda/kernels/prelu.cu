// Parametric ReLU (layers/prelu.h): a map forward; backward, a reduction that also writes dx.
#include "neap/layers/cuda/kernels/channel_map.cuh"
#include "neap/layers/cuda/kernels/channel_reduce.cuh"
#include "neap/layers/cuda/kernels/prelu.h"

namespace neap::kernels {
namespace {

template <typename T>
struct PreluOp {
  const T* x;
  const float* slopes;
  T* y;
  template <int kVec>
  using Registers = Packed<T, kVec>;
  template <int kVec>
  __device__ Packed<T, kVec> Load(size_t i) const {
    return Read<kVec>(x, i);
  }
  template <bool kLast, int kVec>
  __device__ Vec<kVec> Prepare(size_t c) const {
    return PerChannel<kLast, kVec>(slopes, c);
  }
  template <int kVec>
  __device__ void Store(size_t i, const Vec<kVec>& slope, const Packed<T, kVec>& in) const {
    Vec<kVec> v = Unpack(in);
#pragma unroll
    for (int k = 0; k < kVec; ++k) v.v[k] = v.v[k] > 0.0F ? v.v[k] : v.v[k] * slope.v[k];
    Write<kVec>(y, i, v);
  }
};

// Computes dx, and sums the gradient of the slope.
template <typename T>
struct PreluGradientOp {
  using Total = Sums<1>;
  const T* x;
  const T* dy;
  const float* slopes;
  T* dx;
  template <int kVec>
  using Registers = Two<Packed<T, kVec>>;
  template <bool kLast, int kVec>
  __device__ Vec<kVec> Prepare(size_t c, size_t) const {
    return PerChannel<kLast, kVec>(slopes, c);
  }
  template <int kVec>
  __device__ Registers<kVec> Load(size_t i) const {
    return {Read<kVec>(x, i), Read<kVec>(dy, i)};
  }
  template <int kVec>
  __device__ void Accumulate(const Vec<kVec>& slope, const Registers<kVec>& in, size_t i,
                             Accumulators<1, kVec>& sums) const {
    const Vec<kVec> values = Unpack(in.a);
    Vec<kVec> v = Unpack(in.b);
#pragma unroll
    for (int k = 0; k < kVec; ++k) {
      if (values.v[k] > 0.0F) continue;
      sums.v[0].v[k] += values.v[k] * v.v[k];
      v.v[k] *= slope.v[k];
    }
    Write<kVec>(dx, i, v);
  }
};

}  // namespace

cudaError_t Prelu(const ChannelShape& s, ConstArray x, const float* slopes, Array y,
                  cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    return MapChannels<T>(s, AllAligned16(x, slopes, y), PreluOp<T>{As<T>(x), slopes, As<T>(y)},
                          stream);
  };
  return WithElement(run, x, y);
}

cudaError_t PreluBackward(const ChannelShape& s, ConstArray x, ConstArray dy, const float* slopes,
                          Array dx, float* dslopes, bool add, const ReductionMemory& memory,
                          cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    const PreluGradientOp<T> op = {As<T>(x), As<T>(dy), slopes, As<T>(dx)};
    return Reduce<T>(s, AllAligned16(x, dy, slopes, dx), op, StoreSum{dslopes, add}, memory,
                     stream);
  };
  return WithElement(run, x, dy, dx);
}

}  // namespace neap::kernels

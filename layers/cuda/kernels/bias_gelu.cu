// A bias and the GELU behind it (layers/fusion/biased_gelu.h): a map forward, and backward a
// reduction that also writes dx.
#include "neap/layers/cuda/kernels/activation.cuh"
#include "neap/layers/cuda/kernels/channel_map.cuh"
#include "neap/layers/cuda/kernels/channel_reduce.cuh"
#include "neap/layers/cuda/kernels/kernels.h"

namespace neap::kernels {
namespace {

template <typename Function, typename T>
struct BiasGeluOp {
  const T* x;
  const float* bias;
  T* y;
  Function function;
  template <int kVec>
  using Registers = Packed<T, kVec>;
  template <int kVec>
  __device__ Packed<T, kVec> Load(size_t i) const {
    return Read<kVec>(x, i);
  }
  template <bool kLast, int kVec>
  __device__ Vec<kVec> Prepare(size_t c) const {
    return PerChannel<kLast, kVec>(bias, c);
  }
  template <int kVec>
  __device__ void Store(size_t i, const Vec<kVec>& b, const Packed<T, kVec>& in) const {
    Vec<kVec> v = Unpack(in);
#pragma unroll
    for (int k = 0; k < kVec; ++k) v.v[k] = function.Value(Rounded<T>(v.v[k] + b.v[k]));
    Write<kVec>(y, i, v);
  }
};

// Sums what it stores.
template <typename Function, typename T>
struct BiasGeluGradientOp {
  using Total = Sums<1>;
  const T* x;
  const float* bias;
  const T* dy;
  T* dx;
  Function function;
  template <int kVec>
  using Registers = Two<Packed<T, kVec>>;
  template <bool kLast, int kVec>
  __device__ Vec<kVec> Prepare(size_t c, size_t) const {
    return PerChannel<kLast, kVec>(bias, c);
  }
  template <int kVec>
  __device__ Registers<kVec> Load(size_t i) const {
    return {Read<kVec>(x, i), Read<kVec>(dy, i)};
  }
  template <int kVec>
  __device__ void Accumulate(const Vec<kVec>& b, const Registers<kVec>& in, size_t i,
                             Accumulators<1, kVec>& sums) const {
    const Vec<kVec> values = Unpack(in.a);
    Vec<kVec> v = Unpack(in.b);
#pragma unroll
    for (int k = 0; k < kVec; ++k) {
      v.v[k] = Rounded<T>(function.Gradient(Rounded<T>(values.v[k] + b.v[k]), v.v[k]));
      sums.v[0].v[k] += v.v[k];
    }
    Write<kVec>(dx, i, v);
  }
};

// Calls run(function).
template <typename Run>
cudaError_t WithGelu(const Activation& gelu, const Run& run) {
  switch (gelu.function) {
    case Activation::Function::kGelu:
      return run(GeluFunction{});
    case Activation::Function::kTanhGelu:
      return run(TanhGeluFunction{});
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace

cudaError_t BiasGelu(const ChannelShape& s, const Activation& gelu, ConstArray x, const float* bias,
                     Array y, cudaStream_t stream) {
  return WithGelu(gelu, [&]<typename Function>(const Function& function) {
    const auto run = [&]<typename T>() {
      const BiasGeluOp<Function, T> op = {As<T>(x), bias, As<T>(y), function};
      return MapChannels<T>(s, AllAligned16(x, bias, y), op, stream);
    };
    return WithElement(run, x, y);
  });
}

cudaError_t BiasGeluBackward(const ChannelShape& s, const Activation& gelu, ConstArray x,
                             const float* bias, ConstArray dy, Array dx, const BiasGradientSum& sum,
                             const ReductionMemory& memory, cudaStream_t stream) {
  const StoreSum store = {sum.dbias, sum.adds};
  return WithGelu(gelu, [&]<typename Function>(const Function& function) {
    const auto run = [&]<typename T>() {
      const BiasGeluGradientOp<Function, T> op = {As<T>(x), bias, As<T>(dy), As<T>(dx), function};
      return Reduce<T>(s, AllAligned16(x, bias, dy, dx), op, store, memory, stream);
    };
    return WithElement(run, x, dy, dx);
  });
}

}  // namespace neap::kernels

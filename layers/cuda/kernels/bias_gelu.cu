// A bias and the GELU behind it (layers/fusion/biased_gelu.h): a map forward, and backward a
// reduction that also writes dx.
#include "neap/layers/cuda/kernels/activation.cuh"
#include "neap/layers/cuda/kernels/channel_map.cuh"
#include "neap/layers/cuda/kernels/channel_reduce.cuh"
#include "neap/layers/cuda/kernels/kernels.h"

namespace neap::kernels {
namespace {

// x + bias as AddBias would have stored it.
template <typename T, int kVec>
__device__ __forceinline__ Vec<kVec> Biased(const Packed<T, kVec>& x, const Vec<kVec>& bias) {
  Vec<kVec> v = Unpack(x);
#pragma unroll
  for (int k = 0; k < kVec; ++k) v.v[k] += bias.v[k];
  return Unpack(Pack<T>(v));
}

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
    Vec<kVec> v = Biased(in, b);
#pragma unroll
    for (float& f : v.v) f = function.Value(f);
    Write<kVec>(y, i, v);
  }
};

// Sums what it stores. Unlike other reductions it has almost as much arithmetic as the memory
// leaves time for, which takes twice the warps, and all multiprocessors where channels are many:
// two blocks are on each at a time, of fewer loads.
struct BiasGeluSums : Sums<1> {
  static constexpr int kResidentRows = 2;
  static constexpr int64_t kRowBlocks = 4 * kWantedBlocks;
};
template <typename Function, typename T>
struct BiasGeluGradientOp {
  using Total = BiasGeluSums;
  static constexpr int kLoads = 2;
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
    const Vec<kVec> values = Biased(in.a, b);
    Vec<kVec> v = Unpack(in.b);
#pragma unroll
    for (int k = 0; k < kVec; ++k) v.v[k] = function.Gradient(values.v[k], v.v[k]);
    const Packed<T, kVec> stored = Pack<T>(v);
    Write<kVec>(dx, i, stored);
    v = Unpack(stored);
#pragma unroll
    for (int k = 0; k < kVec; ++k) sums.v[0].v[k] += v.v[k];
  }
};

// Calls run(function) with the function for tensors of type T.
template <typename T, typename Run>
cudaError_t WithGelu(const Activation& gelu, const Run& run) {
  switch (gelu.function) {
    case Activation::Function::kGelu:
      return run(GeluFunction<T>{});
    case Activation::Function::kTanhGelu:
      return run(TanhGeluFunction<T>{});
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace

cudaError_t BiasGelu(const ChannelShape& s, const Activation& gelu, ConstArray x, const float* bias,
                     Array y, cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    return WithGelu<T>(gelu, [&]<typename Function>(const Function& function) {
      const BiasGeluOp<Function, T> op = {As<T>(x), bias, As<T>(y), function};
      return MapChannels<T>(s, AllAligned16(x, bias, y), op, stream);
    });
  };
  return WithElement(run, x, y);
}

int64_t BiasGeluScratchBytes(const ChannelShape& s, Element type) {
  return PartialBytes(s, type, sizeof(BiasGeluSums::Of<float>), BiasGeluSums::kRowBlocks);
}

cudaError_t BiasGeluBackward(const ChannelShape& s, const Activation& gelu, ConstArray x,
                             const float* bias, ConstArray dy, Array dx, const BiasGradientSum& sum,
                             const ReductionMemory& memory, cudaStream_t stream) {
  const StoreSum store = {sum.dbias, sum.adds};
  const auto run = [&]<typename T>() {
    return WithGelu<T>(gelu, [&]<typename Function>(const Function& function) {
      const BiasGeluGradientOp<Function, T> op = {As<T>(x), bias, As<T>(dy), As<T>(dx), function};
      return Reduce<T>(s, AllAligned16(x, bias, dy, dx), op, store, memory, stream);
    });
  };
  return WithElement(run, x, dy, dx);
}

}  // namespace neap::kernels

// Batch norm with an activation behind it (layers/fusion/activated_batch_norm.h): the map that
// applies the statistics, and the two passes of backward, in which the normalised x is computed
// again.
#include "neap/layers/cuda/kernels/activation.cuh"
#include "neap/layers/cuda/kernels/batch_norm.cuh"
#include "neap/layers/cuda/kernels/batch_norm.h"
#include "neap/layers/cuda/kernels/batch_norm_passes.cuh"
#include "neap/layers/cuda/kernels/channel_map.cuh"
#include "neap/layers/cuda/kernels/kernels.h"

namespace neap::kernels {
namespace {

template <typename Function, typename T>
struct ApplyOp {
  BatchNormOperands in;
  Function function;
  T* y;
  template <int kVec>
  using Registers = Packed<T, kVec>;
  template <int kVec>
  using Constants = Normalisation<kVec>;
  template <int kVec>
  __device__ Registers<kVec> Load(size_t i) const {
    return Read<kVec>(As<T>(in.x), i);
  }
  template <bool kLast, int kVec>
  __device__ Constants<kVec> Prepare(size_t c) const {
    return NormalisationOf<kLast, kVec>(in, c);
  }
  template <int kVec>
  __device__ void Store(size_t i, const Constants<kVec>& of, const Registers<kVec>& loaded) const {
    Vec<kVec> v = Unpack(loaded);
#pragma unroll
    for (int k = 0; k < kVec; ++k) v.v[k] = function.Value(of.template Of<T>(v.v[k], k));
    Write<kVec>(y, i, v);
  }
};

// The gradient in front of the activation, as the T that would have been stored. A function whose
// gradient is that of y, a clip, has the same at x.
template <typename Function, typename T>
struct ActivatedGradient {
  BatchNormOperands in;
  Function function;
  const T* dy;
  template <int kVec>
  using Constants = Normalisation<kVec>;
  template <bool kLast, int kVec>
  __device__ __forceinline__ Constants<kVec> Prepare(size_t c) const {
    return NormalisationOf<kLast, kVec>(in, c);
  }
  template <int kVec>
  __device__ __forceinline__ Loaded<T, kVec> Load(size_t i) const {
    return {Read<kVec>(As<T>(in.x), i), Read<kVec>(dy, i), ~0U};
  }
  template <int kVec>
  __device__ __forceinline__ Vec<kVec> Of(const Constants<kVec>& of, const Loaded<T, kVec>& loaded,
                                          const Vec<kVec>& x) const {
    Vec<kVec> dz = Unpack(loaded.dy);
#pragma unroll
    for (int k = 0; k < kVec; ++k)
      dz.v[k] = Rounded<T>(function.Gradient(of.template Of<T>(x.v[k], k), dz.v[k]));
    return dz;
  }
};

// Calls run(function).
template <typename Run>
cudaError_t WithFunction(const BatchNormActivation& activation, const Run& run) {
  switch (activation.function) {
    case BatchNormActivation::Function::kClip:
      return run(ClipFunction{activation.low, activation.high});
    case BatchNormActivation::Function::kHardSwish:
      return run(HardSwishFunction{});
    case BatchNormActivation::Function::kSilu:
      return run(SiluFunction{});
  }
  return cudaErrorInvalidValue;
}

}  // namespace

cudaError_t BatchNormActivated(const ChannelShape& s, const BatchNormOperands& in,
                               const BatchNormActivation& activation, Array y,
                               cudaStream_t stream) {
  return WithFunction(activation, [&]<typename Function>(const Function& function) {
    const auto run = [&]<typename T>() {
      return MapChannels<T>(s, AllAligned16(in) && Aligned16(y),
                            ApplyOp<Function, T>{in, function, As<T>(y)}, stream);
    };
    return WithElement(run, in.x, y);
  });
}

cudaError_t BatchNormActivatedBackward(const ChannelShape& s, const BatchNormOperands& in,
                                       const BatchNormActivation& activation, ConstArray dy,
                                       const BatchNormSums& sums, Array dx,
                                       const ReductionMemory& memory, cudaStream_t stream) {
  return WithFunction(activation, [&]<typename Function>(const Function& function) {
    const auto run = [&]<typename T>() {
      return Passes{s, in, sums, dx, {}, memory, stream}.Run<T>(
          ActivatedGradient<Function, T>{in, function, As<T>(dy)},
          AllAligned16(in) && Aligned16(dy));
    };
    return WithElement(run, in.x, dy, dx);
  });
}

}  // namespace neap::kernels

// Batch norm with an activation behind it (layers/fusion/activated_batch_norm.h): the map that
// applies the statistics, and the two passes of backward, in which the normalised x is computed
// again.
#include "neap/layers/cuda/kernels/activation.cuh"
#include "neap/layers/cuda/kernels/channel_map.cuh"
#include "neap/layers/cuda/kernels/kernels.h"
#include "neap/layers/cuda/kernels/norm/batch_norm.cuh"
#include "neap/layers/cuda/kernels/norm/batch_norm.h"
#include "neap/layers/cuda/kernels/norm/batch_norm_passes.cuh"

namespace neap::kernels {
namespace {

// Calls run(function) with the activation's function. All threads take the same case.
template <typename Run>
__device__ __forceinline__ void WithFunction(const BatchNormActivation& activation,
                                             const Run& run) {
  switch (activation.function) {
    case BatchNormActivation::Function::kClip:
      return run(ClipFunction{activation.low, activation.high});
    case BatchNormActivation::Function::kHardSwish:
      return run(HardSwishFunction{});
    case BatchNormActivation::Function::kSilu:
      return run(SiluFunction{});
  }
}

template <typename T>
struct ApplyOp {
  BatchNormOperands in;
  BatchNormActivation activation;
  T* y;
  template <int kVec>
  using Registers = Packed<T, kVec>;
  template <int kVec>
  __device__ Registers<kVec> Load(size_t i) const {
    return Read<kVec>(As<T>(in.x), i);
  }
  template <bool kLast, int kVec>
  __device__ Normalisation<kVec> Prepare(size_t c) const {
    return NormalisationOf<kLast, kVec>(in, c);
  }
  template <int kVec>
  __device__ void Store(size_t i, const Normalisation<kVec>& of,
                        const Registers<kVec>& loaded) const {
    Vec<kVec> v = Unpack(loaded);
#pragma unroll
    for (int k = 0; k < kVec; ++k) v.v[k] = of.template Of<T>(v.v[k], k);
    WithFunction(activation, [&](const auto& function) {
#pragma unroll
      for (float& f : v.v) f = function.Value(f);
    });
    Write<kVec>(y, i, v);
  }
};

// The gradient in front of the activation, as the T that would have been stored. A function whose
// gradient is that of y, a clip, has the same at x.
template <typename T>
struct ActivatedGradient {
  BatchNormOperands in;
  BatchNormActivation activation;
  const T* dy;
  __device__ __forceinline__ bool Recomputes() const { return true; }
  template <int kVec>
  __device__ __forceinline__ Loaded<T, kVec> Load(size_t i) const {
    return {Read<kVec>(As<T>(in.x), i), Read<kVec>(dy, i), ~0U};
  }
  template <int kVec>
  __device__ __forceinline__ Vec<kVec> Of(const Loaded<T, kVec>& loaded, const Vec<kVec>& x,
                                          const Vec<kVec>& mean, const Vec<kVec>& scale,
                                          const Vec<kVec>& beta) const {
    Vec<kVec> dz = Unpack(loaded.dy), y;
#pragma unroll
    for (int k = 0; k < kVec; ++k) y.v[k] = Normalised<T>(x.v[k], mean.v[k], scale.v[k], beta.v[k]);
    WithFunction(activation, [&](const auto& function) {
#pragma unroll
      for (int k = 0; k < kVec; ++k) dz.v[k] = function.Gradient(y.v[k], dz.v[k]);
    });
#pragma unroll
    for (float& f : dz.v) f = Rounded<T>(f);
    return dz;
  }
};

}  // namespace

cudaError_t BatchNormActivated(const ChannelShape& s, const BatchNormOperands& in,
                               const BatchNormActivation& activation, Array y,
                               cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    return MapChannels<T>(s, AllAligned16(in) && Aligned16(y), ApplyOp<T>{in, activation, As<T>(y)},
                          stream);
  };
  return WithElement(run, in.x, y);
}

cudaError_t BatchNormActivatedBackward(const ChannelShape& s, const BatchNormOperands& in,
                                       const BatchNormActivation& activation, ConstArray dy,
                                       const BatchNormSums& sums, Array dx,
                                       const ReductionMemory& memory, cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    return Passes{s, in, sums, dx, {}, memory, stream}.Run<T>(
        ActivatedGradient<T>{in, activation, As<T>(dy)}, AllAligned16(in) && Aligned16(dy));
  };
  return WithElement(run, in.x, dy, dx);
}

}  // namespace neap::kernels

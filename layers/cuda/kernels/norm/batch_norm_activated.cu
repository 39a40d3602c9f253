// Batch norm with an activation behind it (layers/fusion/norm_pass.h): the map that applies the
// statistics, and the two passes of backward, in which the normalised x is computed again.
//
// Clip, a comparison or two, has kernels of its own: in one kernel with functions that take more
// registers, fewer of its blocks would be on a multiprocessor. HardSwish and Silu share theirs,
// which take half of the time to compile that one for each would.
#include "neap/layers/cuda/kernels/activation.cuh"
#include "neap/layers/cuda/kernels/channel_map.cuh"
#include "neap/layers/cuda/kernels/kernels.h"
#include "neap/layers/cuda/kernels/norm/batch_norm.cuh"
#include "neap/layers/cuda/kernels/norm/batch_norm.h"
#include "neap/layers/cuda/kernels/norm/batch_norm_passes.cuh"

namespace neap::kernels {
namespace {

// HardSwish or Silu.
struct SwishFunction {
  bool is_silu;
};

// Calls run(function), for tensors of type T. All threads take the same case.
template <typename T, typename Run>
__device__ __forceinline__ void WithCase(const ClipFunction& clip, const Run& run) {
  run(clip);
}
template <typename T, typename Run>
__device__ __forceinline__ void WithCase(const SwishFunction& swish, const Run& run) {
  if (swish.is_silu) {
    run(SiluFunction<T>{});
  } else {
    run(HardSwishFunction{});
  }
}

// Calls run.template operator()<T>(function), T being the type of the arrays' elements.
template <typename Run, typename... Arrays>
cudaError_t WithFunction(const BatchNormActivation& activation, const Run& run,
                         const Arrays&... arrays) {
  using Function = BatchNormActivation::Function;
  const auto typed = [&]<typename T>() {
    if (activation.function == Function::kClip)
      return run.template operator()<T>(ClipFunction{activation.low, activation.high});
    return run.template operator()<T>(SwishFunction{activation.function == Function::kSilu});
  };
  return WithElement(typed, arrays...);
}

template <typename Function, typename T>
struct ActivatedApplyOp {
  BatchNormOperands in;
  Function function;
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
    WithCase<T>(function, [&](const auto& f) {
#pragma unroll
      for (float& value : v.v) value = f.Value(value);
    });
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
    WithCase<T>(function, [&](const auto& f) {
#pragma unroll
      for (int k = 0; k < kVec; ++k) dz.v[k] = f.Gradient(y.v[k], dz.v[k]);
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
  const auto run = [&]<typename T>(auto function) {
    const ActivatedApplyOp<decltype(function), T> op = {in, function, As<T>(y)};
    return MapChannels<T>(s, AllAligned16(in) && Aligned16(y), op, stream);
  };
  return WithFunction(activation, run, in.x, y);
}

cudaError_t BatchNormActivatedBackward(const ChannelShape& s, const BatchNormOperands& in,
                                       const BatchNormActivation& activation, ConstArray dy,
                                       const BatchNormSums& sums, Array dx,
                                       const ReductionMemory& memory, cudaStream_t stream) {
  const auto run = [&]<typename T>(auto function) {
    const ActivatedGradient<decltype(function), T> source = {in, function, As<T>(dy)};
    return Passes{s, in, sums, dx, {}, memory, stream}.Run<T>(source,
                                                              AllAligned16(in) && Aligned16(dy));
  };
  return WithFunction(activation, run, in.x, dy, dx);
}

}  // namespace neap::kernels

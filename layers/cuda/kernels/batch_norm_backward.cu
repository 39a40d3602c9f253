// Batch norm, backward: sums, and then a map that uses them. The sum, the ReLU and the max pooling
// behind a batch norm take part in both passes (layers/fusion/fused_batch_norm.h).
#include <type_traits>

#include "neap/layers/cuda/kernels/batch_norm.cuh"
#include "neap/layers/cuda/kernels/batch_norm.h"
#include "neap/layers/cuda/kernels/batch_norm_passes.cuh"
#include "neap/layers/cuda/kernels/kernels.h"
#include "neap/layers/cuda/kernels/pooled_gradient.cuh"

namespace neap::kernels {
namespace {

// dz, the gradient that reaches the normalisation, is the loaded one, that one where the
// normalised x is positive, or that one where the mask of the ReLU behind a sum allows.
enum class Through { kNothing, kRelu, kMask };

// What dz depends on: x, the gradient that `Dy` loads, and a mask.
template <Through kThrough, typename Dy, typename T>
struct Gradient {
  BatchNormOperands in;
  Dy dy;
  const uint8_t* mask;
  struct Nothing {};
  template <int kVec>
  using Constants = std::conditional_t<kThrough == Through::kRelu, Normalisation<kVec>, Nothing>;
  template <bool kLast, int kVec>
  __device__ __forceinline__ Constants<kVec> Prepare(size_t c) const {
    if constexpr (kThrough == Through::kRelu) {
      return NormalisationOf<kLast, kVec>(in, c);
    } else {
      return {};
    }
  }
  template <int kVec>
  using Registers = Loaded<T, kVec, LoadedFrom<Dy, kVec>>;
  template <int kVec>
  __device__ __forceinline__ Registers<kVec> Load(size_t i) const {
    Registers<kVec> loaded = {Read<kVec>(As<T>(in.x), i), dy.template Load<kVec>(i), ~0U};
    if constexpr (kThrough == Through::kMask) loaded.bits = ReadMask<T, kVec>(mask, i);
    return loaded;
  }
  template <int kVec>
  __device__ __forceinline__ Vec<kVec> Of(const Constants<kVec>& of, const Registers<kVec>& loaded,
                                          const Vec<kVec>& x) const {
    Vec<kVec> dz = Unpack(loaded.dy);
    if constexpr (kThrough == Through::kMask) ApplyMask(loaded.bits, dz);
    if constexpr (kThrough == Through::kRelu) {
#pragma unroll
      for (int k = 0; k < kVec; ++k) dz.v[k] = ReluGradient(of.template Of<T>(x.v[k], k), dz.v[k]);
    }
    return dz;
  }
};

// `Source` gathers dy.
template <typename Source, typename T>
struct PooledSumsOp : SumsOp<Gradient<Through::kNothing, Source, T>, T> {
  static constexpr int kLoads = Source::kLoads;
};

}  // namespace

cudaError_t BatchNormBackward(const ChannelShape& s, const BatchNormOperands& in,
                              const BatchNormGradient& gradient, const BatchNormSums& sums,
                              Array dx, const ReductionMemory& memory, cudaStream_t stream) {
  const Array& daddend = gradient.daddend;
  const Passes passes = {s, in, sums, dx, daddend, memory, stream};
  const bool aligned = AllAligned16(in) && AllAligned16(gradient.dy, gradient.other);
  const auto run = [&]<typename T>() {
    using Unmasked = Gradient<Through::kNothing, StoredGradient<T>, T>;
    const auto run_through_daddend = [&]<typename Source>(const Source& source) {
      const cudaError_t error = passes.Sum<T>(source, aligned);
      if (error != cudaSuccess) return error;
      // It holds dz.
      return passes.Map<T>(Unmasked{in, {As<T>(daddend)}, nullptr}, aligned && Aligned16(daddend));
    };
    if (gradient.other.data != nullptr) {
      using Dy = SummedGradient<T>;
      const Dy dy = {As<T>(gradient.dy), As<T>(gradient.other)};
      if (daddend.data == nullptr) return cudaErrorInvalidValue;
      if (gradient.mask == nullptr)
        return run_through_daddend(Gradient<Through::kNothing, Dy, T>{in, dy, nullptr});
      return run_through_daddend(Gradient<Through::kMask, Dy, T>{in, dy, gradient.mask});
    }
    const auto run_with = [&]<typename Source>(const Source& source) {
      return daddend.data == nullptr ? passes.Run<T>(source, aligned) : run_through_daddend(source);
    };
    const StoredGradient<T> stored = {As<T>(gradient.dy)};
    if (gradient.mask != nullptr)
      return run_with(Gradient<Through::kMask, StoredGradient<T>, T>{in, stored, gradient.mask});
    if (gradient.relu)
      return run_with(Gradient<Through::kRelu, StoredGradient<T>, T>{in, stored, nullptr});
    return run_with(Unmasked{in, stored, nullptr});
  };
  return WithElement(run, in.x, gradient.dy, gradient.other, daddend, dx);
}

cudaError_t BatchNormPoolBackward(const ChannelShape& s, const PoolShape& pool,
                                  const BatchNormOperands& in, ConstArray dy, const uint8_t* index,
                                  const BatchNormSums& sums, Array dx,
                                  const ReductionMemory& memory, cudaStream_t stream) {
  const bool aligned = AllAligned16(in) && AllAligned16(dy, index, dx);
  // dx holds dz between the passes: it takes longer to gather than to read again.
  const auto run = [&]<typename T>() {
    const auto make = [&]<typename Source>(const Source& gathered) {
      using Dz = Gradient<Through::kNothing, Source, T>;
      return PooledSumsOp<Source, T>{{Dz{in, gathered, nullptr}, As<T>(dx)}};
    };
    const cudaError_t error =
        ReducePooled(s, pool, aligned, As<T>(dy), index, make, GradientFinal{sums}, memory, stream);
    if (error != cudaSuccess) return error;
    using Stored = Gradient<Through::kNothing, StoredGradient<T>, T>;
    return Passes{s, in, sums, dx, {}, memory, stream}.Map<T>(Stored{in, {As<T>(dx)}, nullptr},
                                                              aligned);
  };
  return WithElement(run, in.x, dy, dx);
}

cudaError_t JointBatchNormBackward(const ChannelShape& s, const JointBatchNorm& norms,
                                   ConstArray dy, const uint8_t* mask,
                                   const ReductionMemory& memory, cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    return RunJoint<T>(s, norms, StoredGradient<T>{As<T>(dy)}, mask, Aligned16(dy), memory, stream);
  };
  return WithElement(run, norms.first.x, norms.second.x, dy, norms.dx, norms.dother);
}

}  // namespace neap::kernels

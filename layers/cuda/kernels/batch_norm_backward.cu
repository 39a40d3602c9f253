// Batch norm, backward: sums, and then a map that uses them. The sum, the ReLU and the max pooling
// behind a batch norm take part in both passes (layers/fused_batch_norm.h).
#include <type_traits>

#include "neap/layers/cuda/kernels/batch_norm.cuh"
#include "neap/layers/cuda/kernels/batch_norm_gradient.cuh"
#include "neap/layers/cuda/kernels/channel_map.cuh"
#include "neap/layers/cuda/kernels/channel_reduce.cuh"
#include "neap/layers/cuda/kernels/kernels.h"
#include "neap/layers/cuda/kernels/pooling.cuh"

namespace neap::kernels {
namespace {

// dz, the gradient that reaches the normalisation, is the loaded one, that one where the
// normalised x is positive, or that one where the mask of the ReLU behind a sum allows.
enum class Through { kNothing, kRelu, kMask };

template <typename T, int kVec>
struct Loaded {
  Packed<T, kVec> x, dy;
  unsigned bits;
};

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
  __device__ __forceinline__ Loaded<T, kVec> Load(size_t i) const {
    Loaded<T, kVec> loaded = {Read<kVec>(As<T>(in.x), i), dy.template Load<kVec>(i), ~0U};
    if constexpr (kThrough == Through::kMask) loaded.bits = ReadMask<T, kVec>(mask, i);
    return loaded;
  }
  template <int kVec>
  __device__ __forceinline__ Vec<kVec> Of(const Constants<kVec>& of, const Loaded<T, kVec>& loaded,
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

// Sums dz and dz * (x - mean) * invstd, and writes dz to `daddend` unless that is null.
template <typename Source, typename T>
struct SumsOp {
  using Total = Sums<2>;
  Source source;
  T* daddend;
  template <int kVec>
  using Registers = Loaded<T, kVec>;
  template <int kVec>
  struct Constants {
    Centred<kVec> centred;
    typename Source::template Constants<kVec> of_source;
  };
  template <bool kLast, int kVec>
  __device__ Constants<kVec> Prepare(size_t c, size_t) const {
    return {CentredOf<kLast, kVec>(source.in, c), source.template Prepare<kLast, kVec>(c)};
  }
  template <int kVec>
  __device__ Loaded<T, kVec> Load(size_t i) const {
    return source.template Load<kVec>(i);
  }
  template <int kVec>
  __device__ void Accumulate(const Constants<kVec>& of, const Loaded<T, kVec>& loaded, size_t i,
                             Accumulators<2, kVec>& sums) const {
    const Vec<kVec> x = Unpack(loaded.x);
    const Vec<kVec> dz = source.Of(of.of_source, loaded, x);
#pragma unroll
    for (int k = 0; k < kVec; ++k) {
      sums.v[0].v[k] += dz.v[k];
      sums.v[1].v[k] += dz.v[k] * of.centred.Of(x.v[k], k);
    }
    if (daddend != nullptr) Write<kVec>(daddend, i, dz);
  }
};

template <typename Source, typename T>
struct BackwardOp {
  Source source;
  const float* dgamma;
  const float* dbeta;
  float inverse_count;
  T* dx;
  template <int kVec>
  using Registers = Loaded<T, kVec>;
  template <int kVec>
  struct Constants {
    Derivative<kVec> derivative;
    typename Source::template Constants<kVec> of_source;
  };
  template <int kVec>
  __device__ Loaded<T, kVec> Load(size_t i) const {
    return source.template Load<kVec>(i);
  }
  template <bool kLast, int kVec>
  __device__ Constants<kVec> Prepare(size_t c) const {
    return {DerivativeOf<kLast, kVec>(source.in, dgamma, dbeta, c),
            source.template Prepare<kLast, kVec>(c)};
  }
  template <int kVec>
  __device__ void Store(size_t i, const Constants<kVec>& of, const Loaded<T, kVec>& loaded) const {
    const Vec<kVec> x = Unpack(loaded.x);
    Vec<kVec> d = source.Of(of.of_source, loaded, x);
#pragma unroll
    for (int k = 0; k < kVec; ++k) d.v[k] = of.derivative.Of(x.v[k], d.v[k], inverse_count, k);
    Write<kVec>(dx, i, d);
  }
};

// Both batch norms of a sum. Their dz is the same.
template <typename T>
struct JointGradient {
  BatchNormOperands first, second;
  const T* dy;
  const uint8_t* mask;  // null without a ReLU
  template <int kVec>
  struct Registers {
    Packed<T, kVec> x, other, dy;
    unsigned bits;
  };
  template <int kVec>
  __device__ __forceinline__ Registers<kVec> Load(size_t i) const {
    return {Read<kVec>(As<T>(first.x), i), Read<kVec>(As<T>(second.x), i), Read<kVec>(dy, i),
            mask == nullptr ? ~0U : ReadMask<T, kVec>(mask, i)};
  }
  template <int kVec>
  static __device__ __forceinline__ Vec<kVec> Of(const Registers<kVec>& loaded) {
    Vec<kVec> dz = Unpack(loaded.dy);
    ApplyMask(loaded.bits, dz);
    return dz;
  }
};

template <typename T>
struct JointSumsOp {
  using Total = Sums<3>;
  JointGradient<T> source;
  template <int kVec>
  using Registers = typename JointGradient<T>::template Registers<kVec>;
  template <bool kLast, int kVec>
  __device__ Two<Centred<kVec>> Prepare(size_t c, size_t) const {
    return {CentredOf<kLast, kVec>(source.first, c), CentredOf<kLast, kVec>(source.second, c)};
  }
  template <int kVec>
  __device__ Registers<kVec> Load(size_t i) const {
    return source.template Load<kVec>(i);
  }
  template <int kVec>
  __device__ void Accumulate(const Two<Centred<kVec>>& of, const Registers<kVec>& loaded, size_t,
                             Accumulators<3, kVec>& sums) const {
    const Vec<kVec> x = Unpack(loaded.x), other = Unpack(loaded.other);
    const Vec<kVec> dz = source.Of(loaded);
#pragma unroll
    for (int k = 0; k < kVec; ++k) {
      sums.v[0].v[k] += dz.v[k];
      sums.v[1].v[k] += dz.v[k] * of.a.Of(x.v[k], k);
      sums.v[2].v[k] += dz.v[k] * of.b.Of(other.v[k], k);
    }
  }
};

template <typename T>
struct JointBackwardOp {
  JointGradient<T> source;
  BatchNormSums first, second;
  float inverse_count;
  T* dx;
  T* dother;
  template <int kVec>
  using Registers = typename JointGradient<T>::template Registers<kVec>;
  template <int kVec>
  __device__ Registers<kVec> Load(size_t i) const {
    return source.template Load<kVec>(i);
  }
  template <bool kLast, int kVec>
  __device__ Two<Derivative<kVec>> Prepare(size_t c) const {
    return {DerivativeOf<kLast, kVec>(source.first, first.dgamma, first.dbeta, c),
            DerivativeOf<kLast, kVec>(source.second, second.dgamma, second.dbeta, c)};
  }
  template <int kVec>
  __device__ void Store(size_t i, const Two<Derivative<kVec>>& of,
                        const Registers<kVec>& loaded) const {
    Vec<kVec> x = Unpack(loaded.x), other = Unpack(loaded.other);
    const Vec<kVec> dz = source.Of(loaded);
#pragma unroll
    for (int k = 0; k < kVec; ++k) {
      x.v[k] = of.a.Of(x.v[k], dz.v[k], inverse_count, k);
      other.v[k] = of.b.Of(other.v[k], dz.v[k], inverse_count, k);
    }
    Write<kVec>(dx, i, x);
    Write<kVec>(dother, i, other);
  }
};

struct JointFinal {
  BatchNormSums first, second;
  __device__ void operator()(uint32_t c, const Sums<3>::Of<double>& total) const {
    first.dbeta[c] = second.dbeta[c] = static_cast<float>(total.v[0]);
    first.dgamma[c] = static_cast<float>(total.v[1]);
    second.dgamma[c] = static_cast<float>(total.v[2]);
  }
};

// One run of both passes, whose operands are of type T.
struct Passes {
  ChannelShape shape;
  BatchNormOperands in;
  BatchNormGradient gradient;
  BatchNormSums sums;
  Array dx;
  ReductionMemory memory;
  cudaStream_t stream;

  template <typename T, typename Source>
  cudaError_t Run(const Source& source, bool aligned) const {
    const Array& daddend = gradient.daddend;
    const cudaError_t error =
        Reduce<T>(shape, aligned && Aligned16(daddend), SumsOp<Source, T>{source, As<T>(daddend)},
                  GradientFinal{sums}, memory, stream);
    if (error != cudaSuccess) return error;
    if (daddend.data == nullptr) return Map<T>(source, aligned);
    // It holds dz.
    return Map<T>(Gradient<Through::kNothing, StoredGradient<T>, T>{in, {As<T>(daddend)}, nullptr},
                  aligned && Aligned16(daddend));
  }

 private:
  template <typename T, typename Source>
  cudaError_t Map(const Source& source, bool aligned) const {
    return MapChannels<T>(
        shape, aligned && AllAligned16(dx, sums.dgamma, sums.dbeta),
        BackwardOp<Source, T>{source, sums.dgamma, sums.dbeta, InverseCount(shape), As<T>(dx)},
        stream);
  }
};

}  // namespace

cudaError_t BatchNormBackward(const ChannelShape& s, const BatchNormOperands& in,
                              const BatchNormGradient& gradient, const BatchNormSums& sums,
                              Array dx, const ReductionMemory& memory, cudaStream_t stream) {
  const Passes passes = {s, in, gradient, sums, dx, memory, stream};
  const bool aligned = AllAligned16(in) && Aligned16(gradient.dy);
  const auto run = [&]<typename T>() {
    const StoredGradient<T> stored = {As<T>(gradient.dy)};
    if (gradient.mask != nullptr) {
      using Source = Gradient<Through::kMask, StoredGradient<T>, T>;
      return passes.Run<T>(Source{in, stored, gradient.mask}, aligned);
    }
    if (gradient.relu) {
      using Source = Gradient<Through::kRelu, StoredGradient<T>, T>;
      return passes.Run<T>(Source{in, stored, nullptr}, aligned);
    }
    using Source = Gradient<Through::kNothing, StoredGradient<T>, T>;
    return passes.Run<T>(Source{in, stored, nullptr}, aligned);
  };
  return WithElement(run, in.x, gradient.dy, gradient.daddend, dx);
}

cudaError_t BatchNormPoolBackward(const ChannelShape& s, const PoolShape& pool,
                                  const BatchNormOperands& in, ConstArray dy, const uint8_t* index,
                                  const BatchNormSums& sums, Array dx,
                                  const ReductionMemory& memory, cudaStream_t stream) {
  const Passes passes = {s, in, {}, sums, dx, memory, stream};
  const auto run = [&]<typename T>() {
    using Source = Gradient<Through::kNothing, PooledGradient<T>, T>;
    return passes.Run<T>(Source{in, {pool, As<T>(dy), index}, nullptr},
                         AllAligned16(in) && AllAligned16(dy, index));
  };
  return WithElement(run, in.x, dy, dx);
}

cudaError_t JointBatchNormBackward(const ChannelShape& s, const JointBatchNorm& norms,
                                   ConstArray dy, const uint8_t* mask,
                                   const ReductionMemory& memory, cudaStream_t stream) {
  const auto& [first, second, first_sums, second_sums, dx, dother] = norms;
  const bool aligned = AllAligned16(first) && AllAligned16(second) && Aligned16(dy);
  const bool aligned_sums =
      AllAligned16(first_sums.dgamma, first_sums.dbeta, second_sums.dgamma, second_sums.dbeta);
  const auto run = [&]<typename T>() {
    const JointGradient<T> source = {first, second, As<T>(dy), mask};
    const cudaError_t error = Reduce<T>(s, aligned, JointSumsOp<T>{source},
                                        JointFinal{first_sums, second_sums}, memory, stream);
    if (error != cudaSuccess) return error;
    const JointBackwardOp<T> op = {source,          first_sums, second_sums,
                                   InverseCount(s), As<T>(dx),  As<T>(dother)};
    return MapChannels<T>(s, aligned && aligned_sums && AllAligned16(dx, dother), op, stream);
  };
  return WithElement(run, first.x, second.x, dy, dx, dother);
}

}  // namespace neap::kernels

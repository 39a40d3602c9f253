// The two passes of batch norm's backward: sums of dz, the gradient that reaches the normalisation,
// and then a map that uses them. A `Source` loads x and what dz depends on, and computes dz; if it
// `Recomputes()` the normalised x, it gets the scale, gamma * invstd, and beta of the channels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "neap/layers/cuda/kernels/channel_map.cuh"
#include "neap/layers/cuda/kernels/channel_reduce.cuh"
#include "neap/layers/cuda/kernels/kernels.h"
#include "neap/layers/cuda/kernels/norm/batch_norm.cuh"
#include "neap/layers/cuda/kernels/norm/batch_norm.h"
#include "neap/layers/cuda/kernels/norm/batch_norm_gradient.cuh"

namespace neap::kernels {

// A gradient that is in memory.
template <typename T>
struct StoredGradient {
  const T* dy;
  template <int kVec>
  __device__ Packed<T, kVec> Load(size_t i) const {
    return Read<kVec>(dy, i);
  }
};

// The sum of two gradients, as the T that would have been stored.
template <typename T, int kVec>
struct TwoGradients {
  Packed<T, kVec> a, b;
};
template <typename T, int kVec>
__device__ __forceinline__ Vec<kVec> Unpack(const TwoGradients<T, kVec>& loaded) {
  Vec<kVec> sum = Unpack(loaded.a);
  const Vec<kVec> b = Unpack(loaded.b);
#pragma unroll
  for (int k = 0; k < kVec; ++k) sum.v[k] = Rounded<T>(sum.v[k] + b.v[k]);
  return sum;
}
template <typename T>
struct SummedGradient {
  const T* dy;
  const T* other;
  template <int kVec>
  __device__ TwoGradients<T, kVec> Load(size_t i) const {
    return {Read<kVec>(dy, i), Read<kVec>(other, i)};
  }
};

// What a source loads for a vector.
template <typename Source, int kVec>
using LoadedFrom = decltype(std::declval<const Source&>().template Load<kVec>(size_t{}));
template <typename T, int kVec, typename Dy = Packed<T, kVec>>
struct Loaded {
  Packed<T, kVec> x;
  Dy dy;
  unsigned bits;
};

// What may be between the gradient in memory and the normalisation: nothing, the mask of a ReLU
// behind a sum, or that mask or a ReLU whose result's sign is computed again. All threads take the
// same way.
enum class Through { kNothing, kMask, kMaskOrRelu };

// dz, the gradient that reaches the normalisation, is what `Dy` loads, or 0 where a ReLU's result
// is.
template <Through kThrough, typename Dy, typename T>
struct Gradient {
  BatchNormOperands in;
  Dy dy;
  const uint8_t* mask = nullptr;  // may be null
  bool relu = false;              // without a mask
  template <int kVec>
  using Registers = Loaded<T, kVec, LoadedFrom<Dy, kVec>>;
  __device__ __forceinline__ bool Recomputes() const {
    return kThrough == Through::kMaskOrRelu && relu;
  }
  __device__ __forceinline__ bool HasMask() const {
    return kThrough != Through::kNothing && mask != nullptr;
  }
  template <int kVec>
  __device__ __forceinline__ Registers<kVec> Load(size_t i) const {
    Registers<kVec> loaded = {Read<kVec>(As<T>(in.x), i), dy.template Load<kVec>(i), ~0U};
    if (HasMask()) loaded.bits = ReadMask<T, kVec>(mask, i);
    return loaded;
  }
  template <int kVec>
  __device__ __forceinline__ Vec<kVec> Of(const Registers<kVec>& loaded, const Vec<kVec>& x,
                                          const Vec<kVec>& mean, const Vec<kVec>& scale,
                                          const Vec<kVec>& beta) const {
    Vec<kVec> dz = Unpack(loaded.dy);
    if (HasMask()) ApplyMask(loaded.bits, dz);
    if (Recomputes()) {
#pragma unroll
      for (int k = 0; k < kVec; ++k) {
        const float y = Normalised<T>(x.v[k], mean.v[k], scale.v[k], beta.v[k]);
        dz.v[k] = ReluGradient(y, dz.v[k]);
      }
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
  using Registers = LoadedFrom<Source, kVec>;
  template <bool kLast, int kVec>
  __device__ SumConstants<kVec> Prepare(size_t c, size_t) const {
    return SumConstantsOf<kLast, kVec>(source.in, source.Recomputes(), c);
  }
  template <int kVec>
  __device__ Registers<kVec> Load(size_t i) const {
    return source.template Load<kVec>(i);
  }
  template <int kVec>
  __device__ void Accumulate(const SumConstants<kVec>& of, const Registers<kVec>& loaded, size_t i,
                             Accumulators<2, kVec>& sums) const {
    const Vec<kVec> x = Unpack(loaded.x);
    const Vec<kVec> dz = source.Of(loaded, x, of.centred.mean, of.scale, of.beta);
    AddSums(dz, x, of.centred, sums);
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
    Vec<kVec> beta;
  };
  template <int kVec>
  __device__ Loaded<T, kVec> Load(size_t i) const {
    return source.template Load<kVec>(i);
  }
  template <bool kLast, int kVec>
  __device__ Constants<kVec> Prepare(size_t c) const {
    return {DerivativeOf<kLast, kVec>(source.in, dgamma, dbeta, c),
            BetaOf<kLast, kVec>(source.in, source.Recomputes(), c)};
  }
  template <int kVec>
  __device__ void Store(size_t i, const Constants<kVec>& of, const Loaded<T, kVec>& loaded) const {
    const Vec<kVec> x = Unpack(loaded.x);
    const Derivative<kVec>& derivative = of.derivative;
    Vec<kVec> d = source.Of(loaded, x, derivative.centred.mean, derivative.scale, of.beta);
#pragma unroll
    for (int k = 0; k < kVec; ++k) d.v[k] = derivative.Of(x.v[k], d.v[k], inverse_count, k);
    Write<kVec>(dx, i, d);
  }
};

// Both batch norms of a sum. Their dz is the same.
template <typename Dy, typename T>
struct GradientOfBoth {
  BatchNormOperands first, second;
  Dy dy;
  const uint8_t* mask;  // null without a ReLU
  template <int kVec>
  struct Registers {
    Packed<T, kVec> x, other, dy;
    unsigned bits;
  };
  template <int kVec>
  __device__ __forceinline__ Registers<kVec> Load(size_t i) const {
    return {Read<kVec>(As<T>(first.x), i), Read<kVec>(As<T>(second.x), i),
            dy.template Load<kVec>(i), mask == nullptr ? ~0U : ReadMask<T, kVec>(mask, i)};
  }
  template <int kVec>
  static __device__ __forceinline__ Vec<kVec> Of(const Registers<kVec>& loaded) {
    Vec<kVec> dz = Unpack(loaded.dy);
    ApplyMask(loaded.bits, dz);
    return dz;
  }
};

template <typename Source, typename T>
struct SumsOfBothOp {
  static constexpr int kLoads = 2;
  using Total = Sums<3>;
  Source source;
  template <int kVec>
  using Registers = typename Source::template Registers<kVec>;
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

template <typename Source, typename T>
struct BackwardOfBothOp {
  static constexpr int kLoads = 2;
  Source source;
  BatchNormSums first, second;
  float inverse_count;
  T* dx;
  T* dother;
  template <int kVec>
  using Registers = typename Source::template Registers<kVec>;
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

struct FinalOfBoth {
  BatchNormSums first, second;
  __device__ void operator()(uint32_t c, const Sums<3>::Of<double>& total) const {
    first.dbeta[c] = second.dbeta[c] = static_cast<float>(total.v[0]);
    first.dgamma[c] = static_cast<float>(total.v[1]);
    second.dgamma[c] = static_cast<float>(total.v[2]);
  }
};

// The passes of one batch norm, whose operands are of type T.
struct Passes {
  ChannelShape shape;
  BatchNormOperands in;
  BatchNormSums sums;
  Array dx, daddend;  // daddend may be null
  ReductionMemory memory;
  cudaStream_t stream;

  template <typename T, typename Source>
  cudaError_t Sum(const Source& source, bool aligned) const {
    return Reduce<T>(shape, aligned && Aligned16(daddend),
                     SumsOp<Source, T>{source, As<T>(daddend)}, GradientFinal{sums}, memory,
                     stream);
  }
  template <typename T, typename Source>
  cudaError_t Map(const Source& source, bool aligned) const {
    return MapChannels<T>(
        shape, aligned && AllAligned16(dx, sums.dgamma, sums.dbeta),
        BackwardOp<Source, T>{source, sums.dgamma, sums.dbeta, InverseCount(shape), As<T>(dx)},
        stream);
  }
  template <typename T, typename Source>
  cudaError_t Run(const Source& source, bool aligned) const {
    const cudaError_t error = Sum<T>(source, aligned);
    return error == cudaSuccess ? Map<T>(source, aligned) : error;
  }
};

// Both passes of the batch norms of a sum, where `dy` gives the gradient of the sum.
template <typename T, typename Dy>
cudaError_t RunBoth(const ChannelShape& s, const SummedBatchNorms& norms, const Dy& dy,
                    const uint8_t* mask, bool aligned, const ReductionMemory& memory,
                    cudaStream_t stream) {
  using Source = GradientOfBoth<Dy, T>;
  const auto& [first, second, first_sums, second_sums, dx, dother] = norms;
  const bool aligned_reads = aligned && AllAligned16(first) && AllAligned16(second);
  const bool aligned_sums =
      AllAligned16(first_sums.dgamma, first_sums.dbeta, second_sums.dgamma, second_sums.dbeta);
  const Source source = {first, second, dy, mask};
  const cudaError_t error = Reduce<T>(s, aligned_reads, SumsOfBothOp<Source, T>{source},
                                      FinalOfBoth{first_sums, second_sums}, memory, stream);
  if (error != cudaSuccess) return error;
  const BackwardOfBothOp<Source, T> op = {source,          first_sums, second_sums,
                                          InverseCount(s), As<T>(dx),  As<T>(dother)};
  return MapChannels<T>(s, aligned_reads && aligned_sums && AllAligned16(dx, dother), op, stream);
}

}  // namespace neap::kernels

// Batch norm of a concatenation along the channels that no memory holds, forward and backward. The
// bits are those of batch_norm.cu and batch_norm_backward.cu for the tensor that concat.cu writes.
#include "neap/layers/cuda/kernels/channel_reduce.cuh"
#include "neap/layers/cuda/kernels/concat_parts.cuh"
#include "neap/layers/cuda/kernels/kernels.h"
#include "neap/layers/cuda/kernels/norm/batch_norm.cuh"
#include "neap/layers/cuda/kernels/norm/batch_norm.h"
#include "neap/layers/cuda/kernels/norm/batch_norm_gradient.cuh"
#include "neap/layers/cuda/kernels/norm/batch_norm_moments.cuh"

namespace neap::kernels {
namespace {

// The addresses of a vector: one, unless its channels are of several parts.
template <bool kLast, int kVec, bool kFits>
inline constexpr int kAddresses = kLast && !kFits ? kVec : 1;

// Sums x - x0 and its square.
template <typename T, bool kFits>
struct MomentsOp {
  using Total = Moments;
  Parts<T> parts;
  template <int kVec>
  using Registers = Packed<T, kVec>;
  template <int kVec, typename Place>
  struct Constants : Vec<kVec> {  // x0
    Place place;
  };
  template <bool kLast, int kVec>
  __device__ __forceinline__ auto Prepare(size_t c, const RowPosition& first) const {
    auto place = parts.template PlaceOf<kAddresses<kLast, kVec, kFits>>(static_cast<uint32_t>(c));
    const Vec<kVec> v = Unpack(ReadPart<kVec>(place, first));
    return Constants<kVec, decltype(place)>{kLast ? v : Broadcast<kVec>(v.v[0]), place};
  }
  template <int kVec, typename Constants>
  __device__ __forceinline__ Packed<T, kVec> Load(const Constants& of,
                                                  const RowPosition& at) const {
    return ReadPart<kVec>(of.place, at);
  }
  template <int kVec>
  __device__ __forceinline__ void Accumulate(const Vec<kVec>& x0, const Packed<T, kVec>& in, size_t,
                                             Accumulators<2, kVec>& sums) const {
    AddDeviations(x0, Unpack(in), sums);
  }
};

// The normalised x, and the ReLU behind it.
template <typename T>
struct PartsApplyOp {
  Parts<T> parts;
  BatchNormOperands in;
  bool relu;
  T* y;
  template <int kVec>
  using Registers = Packed<T, kVec>;
  template <int kVec>
  struct Constants {
    Normalisation<kVec> of;
    PartPlace<T, 1> place;
  };
  template <bool kLast, int kVec>
  __device__ __forceinline__ Constants<kVec> Prepare(uint32_t c) const {
    return {NormalisationOf<kLast, kVec>(in, c), parts.template PlaceOf<1>(c)};
  }
  template <int kVec>
  __device__ __forceinline__ Packed<T, kVec> Load(const Constants<kVec>& of,
                                                  const RowPosition& at) const {
    return ReadPart<kVec>(of.place, at);
  }
  template <int kVec>
  __device__ __forceinline__ void Store(const RowPosition& at, const Constants<kVec>& constants,
                                        const Packed<T, kVec>& in) const {
    Vec<kVec> v = Unpack(in);
#pragma unroll
    for (int k = 0; k < kVec; ++k) {
      v.v[k] = constants.of.template Of<T>(v.v[k], k);
      if (relu) v.v[k] = ReluOf(v.v[k]);
    }
    Write<kVec>(y, at.i, v);
  }
};

// Sums dz and dz * (x - mean) * invstd.
template <typename T, bool kFits>
struct PartsSumsOp {
  using Total = Sums<2>;
  Parts<T> parts;
  BatchNormOperands in;
  const T* dy;
  bool relu;
  template <int kVec>
  using Registers = Two<Packed<T, kVec>>;  // x, dy
  template <int kVec, typename Place>
  struct Constants {
    SumConstants<kVec> of;
    Place place;
  };
  template <bool kLast, int kVec>
  __device__ __forceinline__ auto Prepare(size_t c, const RowPosition&) const {
    auto place = parts.template PlaceOf<kAddresses<kLast, kVec, kFits>>(static_cast<uint32_t>(c));
    return Constants<kVec, decltype(place)>{SumConstantsOf<kLast, kVec>(in, relu, c), place};
  }
  template <int kVec, typename Constants>
  __device__ __forceinline__ Two<Packed<T, kVec>> Load(const Constants& of,
                                                       const RowPosition& at) const {
    return {ReadPart<kVec>(of.place, at), Read<kVec>(dy, at.i)};
  }
  template <int kVec, typename Constants>
  __device__ __forceinline__ void Accumulate(const Constants& constants,
                                             const Two<Packed<T, kVec>>& loaded, size_t,
                                             Accumulators<2, kVec>& sums) const {
    AddGradient<T>(relu, loaded.b, Unpack(loaded.a), constants.of, sums);
  }
};

template <typename T>
struct PartsBackwardOp {
  Parts<T> parts;
  T* dx[kMaxParts];
  bool adds[kMaxParts];
  BatchNormOperands in;
  const T* dy;
  bool relu;
  BatchNormSums sums;
  float inverse_count;
  template <int kVec>
  using Registers = LoadedGradient<T, kVec>;
  template <int kVec>
  struct Constants {
    Derivative<kVec> derivative;
    Vec<kVec> beta;
    PartPlace<T, 1> place;
    T* dx;
    bool adds;
  };
  template <bool kLast, int kVec>
  __device__ __forceinline__ Constants<kVec> Prepare(uint32_t c) const {
    const uint32_t part = parts.table.PartOf(c);
    return {DerivativeOf<kLast, kVec>(in, sums.dgamma, sums.dbeta, c),
            BetaOf<kLast, kVec>(in, relu, c), parts.template PlaceOf<1>(c),
            dx[part] + parts.table.Offset(part, c), adds[part]};
  }
  template <int kVec>
  static __device__ __forceinline__ T* Row(const Constants<kVec>& of, const RowPosition& at) {
    return of.dx + static_cast<size_t>(at.row) * of.place.stride[0];
  }
  template <int kVec>
  __device__ __forceinline__ Registers<kVec> Load(const Constants<kVec>& of,
                                                  const RowPosition& at) const {
    Registers<kVec> loaded = {ReadPart<kVec>(of.place, at), Read<kVec>(dy, at.i), {}};
    if (of.adds) loaded.sum = Read<kVec>(Row(of, at), at.within);
    return loaded;
  }
  template <int kVec>
  __device__ __forceinline__ void Store(const RowPosition& at, const Constants<kVec>& of,
                                        const Registers<kVec>& loaded) const {
    Vec<kVec> d = GradientOf(relu, loaded, of.derivative, of.beta, inverse_count);
    if (of.adds) AddSum(loaded, d);
    Write<kVec>(Row(of, at), at.within, d);
  }
};

// Reduces a concatenation as Reduce() would reduce it in memory. `op` is Op<T, kFits>.
template <typename T, template <typename, bool> typename Op, typename Final, typename... Fields>
cudaError_t ReduceParts(const ChannelShape& s, const BatchNormParts& parts, bool aligned,
                        const Final& final, const ReductionMemory& memory, cudaStream_t stream,
                        const Fields&... fields) {
  constexpr int kVec = kWide<T>;
  const Parts<T> of = PartsOf<T>(s, parts);
  if (!s.channels_last || PartsFit(s, parts, kVec))
    return Reduce<T>(s, aligned && PartsFit(s, parts, kVec), Op<T, true>{of, fields...}, final,
                     memory, stream);
  if (!aligned || !Vectorised(s, kVec))
    return Reduce<T>(s, false, Op<T, true>{of, fields...}, final, memory, stream);
  return LaunchReduction<Op<T, false>, Final, kVec, true>(s, Op<T, false>{of, fields...}, final,
                                                          memory, stream);
}

}  // namespace

cudaError_t BatchNormStatistics(const ChannelShape& s, const BatchNormParts& x, float epsilon,
                                float momentum, const BatchNormState& state,
                                const ReductionMemory& memory, cudaStream_t stream) {
  if (!AreParts(s, x)) return cudaErrorInvalidValue;
  const StatisticsFinal final = {.count = static_cast<double>(s.outer * s.inner),
                                 .epsilon = epsilon,
                                 .momentum = momentum,
                                 .state = state};
  const auto run = [&]<typename T>() {
    return ReduceParts<T, MomentsOp>(s, x, true, final, memory, stream);
  };
  return WithElement(run, x.parts[0].x);
}

cudaError_t BatchNormApply(const ChannelShape& s, const BatchNormParts& x,
                           const BatchNormOperands& in, bool relu, Array y, cudaStream_t stream) {
  if (!AreParts(s, x)) return cudaErrorInvalidValue;
  const auto run = [&]<typename T>() {
    const bool wide = AllAligned16(in) && Aligned16(y) && PartsFit(s, x, kWide<T>);
    return MapParts<T>(s, wide, PartsApplyOp<T>{PartsOf<T>(s, x), in, relu, As<T>(y)}, stream);
  };
  return WithElement(run, x.parts[0].x, y);
}

cudaError_t BatchNormBackward(const ChannelShape& s, const BatchNormParts& parts,
                              const BatchNormOperands& in, ConstArray dy, bool relu,
                              const BatchNormSums& sums, const ReductionMemory& memory,
                              cudaStream_t stream) {
  if (!AreParts(s, parts)) return cudaErrorInvalidValue;
  const bool aligned = AllAligned16(in) && Aligned16(dy);
  const auto run = [&]<typename T>() {
    const cudaError_t error = ReduceParts<T, PartsSumsOp>(s, parts, aligned, GradientFinal{sums},
                                                          memory, stream, in, As<T>(dy), relu);
    if (error != cudaSuccess) return error;
    PartsBackwardOp<T> op = {PartsOf<T>(s, parts), {}, {}, in, As<T>(dy), relu, sums,
                             InverseCount(s)};
    for (int i = 0; i < parts.count; ++i) {
      op.dx[i] = As<T>(parts.parts[i].dx);
      op.adds[i] = parts.parts[i].adds;
    }
    const bool wide =
        aligned && AllAligned16(sums.dgamma, sums.dbeta) && PartsFit(s, parts, kWide<T>);
    return MapParts<T>(s, wide, op, stream);
  };
  return WithElement(run, parts.parts[0].x, parts.parts[0].dx, dy);
}

}  // namespace neap::kernels

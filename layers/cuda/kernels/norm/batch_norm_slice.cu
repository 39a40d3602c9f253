// Batch norm that writes its result into a slice of a concatenation, or reads the gradient there.
// The bits are those of batch_norm.cu and batch_norm_backward.cu for a tensor of its own.
#include "neap/layers/cuda/kernels/channel_reduce.cuh"
#include "neap/layers/cuda/kernels/concat_parts.cuh"
#include "neap/layers/cuda/kernels/kernels.h"
#include "neap/layers/cuda/kernels/norm/batch_norm.cuh"
#include "neap/layers/cuda/kernels/norm/batch_norm.h"
#include "neap/layers/cuda/kernels/norm/batch_norm_gradient.cuh"

namespace neap::kernels {
namespace {

// Some channels of a concatenation.
template <typename T>
struct Slice {
  T* first;         // of the first row
  uint32_t inner;   // elements of a channel in a row: those of a plane in NCHW, 1 in NHWC
  uint32_t stride;  // elements between rows
  __device__ __forceinline__ PartPlace<T, 1> PlaceOf(size_t c) const {
    return {{first + c * inner}, {stride}};
  }
};

template <typename T>
struct SliceApplyOp {
  Slice<T> slice;
  const T* x;
  BatchNormOperands in;
  bool relu;
  template <int kVec>
  using Registers = Packed<T, kVec>;
  template <int kVec>
  struct Constants {
    Normalisation<kVec> of;
    T* y;
  };
  template <bool kLast, int kVec>
  __device__ __forceinline__ Constants<kVec> Prepare(uint32_t c) const {
    return {NormalisationOf<kLast, kVec>(in, c),
            slice.first + static_cast<size_t>(c) * slice.inner};
  }
  template <int kVec>
  __device__ __forceinline__ Packed<T, kVec> Load(const Constants<kVec>&,
                                                  const RowPosition& at) const {
    return Read<kVec>(x, at.i);
  }
  template <int kVec>
  __device__ __forceinline__ void Store(const RowPosition& at, const Constants<kVec>& of,
                                        const Packed<T, kVec>& in) const {
    Vec<kVec> v = Unpack(in);
#pragma unroll
    for (int k = 0; k < kVec; ++k) {
      v.v[k] = of.of.template Of<T>(v.v[k], k);
      if (relu) v.v[k] = ReluOf(v.v[k]);
    }
    Write<kVec>(of.y + static_cast<size_t>(at.row) * slice.stride, at.within, v);
  }
};

// A vector that need not begin at a multiple of its size.
template <int kVec, typename T>
__device__ __forceinline__ Packed<T, kVec> ReadUnaligned(const PartPlace<T, 1>& place,
                                                         const RowPosition& at) {
  const T* const p = place.at[0] + static_cast<size_t>(at.row) * place.stride[0] + at.within * kVec;
  Vec<kVec> v;
#pragma unroll
  for (int k = 0; k < kVec; ++k) v.v[k] = ToFloat(p[k]);
  return Pack<T>(v);
}

// Sums dz and dz * (x - mean) * invstd, over the same vectors whether they fit the slice or not.
template <typename T>
struct SliceSumsOp {
  using Total = Sums<2>;
  Slice<T> slice;  // of dy
  const T* x;
  BatchNormOperands in;
  bool relu;
  bool fits;  // the slice
  template <int kVec>
  using Registers = Two<Packed<T, kVec>>;  // x, dy
  template <int kVec>
  struct Constants {
    SumConstants<kVec> of;
    PartPlace<T, 1> place;
  };
  template <bool kLast, int kVec>
  __device__ __forceinline__ Constants<kVec> Prepare(size_t c, const RowPosition&) const {
    return {SumConstantsOf<kLast, kVec>(in, relu, c), slice.PlaceOf(c)};
  }
  template <int kVec>
  __device__ __forceinline__ Two<Packed<T, kVec>> Load(const Constants<kVec>& of,
                                                       const RowPosition& at) const {
    const Packed<T, kVec> dy =
        kVec == 1 || fits ? ReadPart<kVec>(of.place, at) : ReadUnaligned<kVec>(of.place, at);
    return {Read<kVec>(x, at.i), dy};
  }
  template <int kVec>
  __device__ __forceinline__ void Accumulate(const Constants<kVec>& of,
                                             const Two<Packed<T, kVec>>& loaded, size_t,
                                             Accumulators<2, kVec>& sums) const {
    AddGradient<T>(relu, loaded.b, Unpack(loaded.a), of.of, sums);
  }
};

template <typename T>
struct SliceBackwardOp {
  Slice<T> slice;  // of dy
  const T* x;
  BatchNormOperands in;
  bool relu;
  BatchNormSums sums;
  float inverse_count;
  T* dx;
  bool adds;
  template <int kVec>
  using Registers = LoadedGradient<T, kVec>;
  template <int kVec>
  struct Constants {
    Derivative<kVec> derivative;
    Vec<kVec> beta;
    PartPlace<T, 1> place;
  };
  template <bool kLast, int kVec>
  __device__ __forceinline__ Constants<kVec> Prepare(uint32_t c) const {
    return {DerivativeOf<kLast, kVec>(in, sums.dgamma, sums.dbeta, c),
            BetaOf<kLast, kVec>(in, relu, c), slice.PlaceOf(c)};
  }
  template <int kVec>
  __device__ __forceinline__ Registers<kVec> Load(const Constants<kVec>& of,
                                                  const RowPosition& at) const {
    Registers<kVec> loaded = {Read<kVec>(x, at.i), ReadPart<kVec>(of.place, at), {}};
    if (adds) loaded.sum = Read<kVec>(dx, at.i);
    return loaded;
  }
  template <int kVec>
  __device__ __forceinline__ void Store(const RowPosition& at, const Constants<kVec>& of,
                                        const Registers<kVec>& loaded) const {
    Vec<kVec> d = GradientOf(relu, loaded, of.derivative, of.beta, inverse_count);
    if (adds) AddSum(loaded, d);
    Write<kVec>(dx, at.i, d);
  }
};

template <typename T>
Slice<T> SliceOf(const ChannelShape& s, T* first, int64_t channels) {
  const int64_t inner = s.channels_last ? 1 : s.inner;
  return {first, static_cast<uint32_t>(inner), static_cast<uint32_t>(channels * inner)};
}

// Whether vectors of the slice begin at multiples of 16 bytes.
template <typename T>
bool Fits(const ChannelShape& s, ConstArray slice, int64_t channels) {
  return Aligned16(slice) && (!s.channels_last || channels % kWide<T> == 0);
}

bool IsSlice(const ChannelShape& s, int64_t channels) {
  return s.channels <= channels && Fits32(channels * s.inner) && Fits32(s.outer * s.inner);
}

}  // namespace

cudaError_t BatchNormApplySlice(const ChannelShape& s, const BatchNormOperands& in, bool relu,
                                Array y, int64_t channels, cudaStream_t stream) {
  if (!IsSlice(s, channels)) return cudaErrorInvalidValue;
  const auto run = [&]<typename T>() {
    const bool wide = AllAligned16(in) && Fits<T>(s, y, channels);
    const SliceApplyOp<T> op = {SliceOf(s, As<T>(y), channels), As<T>(in.x), in, relu};
    return MapParts<T>(s, wide, op, stream);
  };
  return WithElement(run, in.x, y);
}

cudaError_t BatchNormBackwardSlice(const ChannelShape& s, const BatchNormOperands& in, bool relu,
                                   ConstArray dy, int64_t channels, const BatchNormSums& sums,
                                   Array dx, bool adds, const ReductionMemory& memory,
                                   cudaStream_t stream) {
  if (!IsSlice(s, channels)) return cudaErrorInvalidValue;
  const auto run = [&]<typename T>() {
    const bool aligned = AllAligned16(in), fits = Fits<T>(s, dy, channels);
    // Nothing is written to it.
    const Slice<T> slice = SliceOf(s, const_cast<T*>(As<T>(dy)), channels);
    const SliceSumsOp<T> op = {slice, As<T>(in.x), in, relu, fits};
    const cudaError_t error = Reduce<T>(s, aligned, op, GradientFinal{sums}, memory, stream);
    if (error != cudaSuccess) return error;
    const bool wide = aligned && fits && AllAligned16(sums.dgamma, sums.dbeta, dx);
    return MapParts<T>(
        s, wide,
        SliceBackwardOp<T>{slice, As<T>(in.x), in, relu, sums, InverseCount(s), As<T>(dx), adds},
        stream);
  };
  return WithElement(run, in.x, dy, dx);
}

}  // namespace neap::kernels

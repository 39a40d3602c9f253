// What batch norm computes forward, whatever becomes of the result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "neap/layers/cuda/kernels/channel_map.cuh"
#include "neap/layers/cuda/kernels/kernels.h"
#include "neap/layers/cuda/kernels/norm/batch_norm.cuh"
#include "neap/layers/cuda/kernels/norm/batch_norm.h"

namespace neap::kernels {

// What is added to the normalised x.
enum class Addend { kNone, kStored, kNormalised };

// The normalised x, and the sum and the ReLU that follow it. The sum needs no rounding before the
// ReLU, because rounding keeps its sign; but a small sum may round to 0, of which the mask must
// know.
template <Addend kAddend, typename T>
struct Applied {
  BatchNormOperands in, addend;
  bool relu;
  template <int kVec>
  using Registers =
      std::conditional_t<kAddend == Addend::kNone, Packed<T, kVec>, Two<Packed<T, kVec>>>;
  template <int kVec>
  using Constants = std::conditional_t<kAddend == Addend::kNormalised, Two<Normalisation<kVec>>,
                                       Normalisation<kVec>>;
  template <int kVec>
  __device__ __forceinline__ Registers<kVec> Load(size_t i) const {
    if constexpr (kAddend == Addend::kNone) {
      return Read<kVec>(As<T>(in.x), i);
    } else {
      return {Read<kVec>(As<T>(in.x), i), Read<kVec>(As<T>(addend.x), i)};
    }
  }
  template <bool kLast, int kVec>
  __device__ __forceinline__ Constants<kVec> Prepare(size_t c) const {
    if constexpr (kAddend == Addend::kNormalised) {
      return {NormalisationOf<kLast, kVec>(in, c), NormalisationOf<kLast, kVec>(addend, c)};
    } else {
      return NormalisationOf<kLast, kVec>(in, c);
    }
  }
  // The result before it is rounded to a T. Calls visit(k, rounded) for every element.
  template <int kVec, typename Visit>
  __device__ __forceinline__ Vec<kVec> Of(const Constants<kVec>& of, const Registers<kVec>& v,
                                          const Visit& visit) const {
    Vec<kVec> out, other = {};
    if constexpr (kAddend == Addend::kNone) {
      out = Unpack(v);
    } else {
      out = Unpack(v.a);
      other = Unpack(v.b);
    }
#pragma unroll
    for (int k = 0; k < kVec; ++k) {
      if constexpr (kAddend == Addend::kNormalised) {
        out.v[k] = of.a.template Of<T>(out.v[k], k) + of.b.template Of<T>(other.v[k], k);
      } else {
        out.v[k] = of.template Of<T>(out.v[k], k);
        if constexpr (kAddend == Addend::kStored) out.v[k] += other.v[k];
      }
      if (relu) out.v[k] = ReluOf(out.v[k]);
      visit(k, Rounded<T>(out.v[k]));
    }
    return out;
  }
};

// The mask's bit of an element, rounded to a T.
__device__ __forceinline__ unsigned MaskBit(float y) { return !(y <= 0.0F) ? 1U : 0U; }

// Calls run.template operator()<kAddend, T>() for the addend and the elements' type.
template <typename Run>
cudaError_t WithAddend(const BatchNormOperands& in, const BatchNormOperands& addend, const Array& y,
                       const Run& run) {
  const auto typed = [&]<typename T>() {
    if (addend.x.data == nullptr) return run.template operator()<Addend::kNone, T>();
    if (addend.gamma == nullptr) return run.template operator()<Addend::kStored, T>();
    return run.template operator()<Addend::kNormalised, T>();
  };
  return WithElement(typed, in.x, addend.x, y);
}

}  // namespace neap::kernels

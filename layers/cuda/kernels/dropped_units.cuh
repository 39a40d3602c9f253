// Whether the units of a layer that drops some, such as images, are kept (layers/dropout.h).
#pragma once

#include <cstdint>

#include "neap/core/base/philox.h"
#include "neap/layers/cuda/kernels/elements.cuh"
#include "neap/layers/cuda/kernels/kernels.h"
#include "neap/layers/cuda/kernels/scalars.cuh"

namespace neap::kernels {

// What the elements of a unit are multiplied by: 0 if it is dropped. Units are consecutive
// elements, or with channels last the channels of an image.
struct UnitFactors {
  explicit UnitFactors(const DropoutMask& mask)
      : first(static_cast<uint64_t>(mask.first)),
        layer_seed(mask.layer_seed),
        probability(mask.probability),
        scalars(static_cast<const Scalars*>(mask.scalars)) {}
  // Of neighbouring units.
  template <int kCount>
  __device__ __forceinline__ Vec<kCount> Of(uint64_t unit) const {
    const float kept = 1.0F / (1.0F - probability);
    Vec<kCount> factors;
    PhiloxBlock random = {};
    uint64_t block = 0;
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      const uint64_t number = first + unit + k;
      if (k == 0 || number / 4 != block) {
        block = number / 4;
        random = DropoutBlock(scalars->seed, layer_seed, scalars->step, block);
      }
      factors.v[k] = ToUnitFloat(random[number % 4]) >= probability ? kept : 0.0F;
    }
    return factors;
  }
  uint64_t first, layer_seed;
  float probability;
  const Scalars* scalars;
};

// What is dropped becomes 0 whatever it is, also NaN.
__device__ __forceinline__ float Dropped(float x, float factor) {
  return factor == 0.0F ? 0.0F : x * factor;
}

}  // namespace neap::kernels

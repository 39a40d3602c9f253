// Norms that do not couple images, for random networks.
#pragma once

#include <cstdint>

#include "neap/core/step/layer.h"
#include "neap/layers/norm/group_norm.h"
#include "neap/layers/norm/layer_norm.h"

namespace neap::testing {

// The norm that `number` chooses for values of these channels and this extent along each axis.
inline Layer ImageNormOf(int number, int64_t channels, int64_t size) {
  // Variances of few values are small, and what differs by rounding must not differ by more.
  constexpr float kEpsilon = 0.1F;
  const bool affine = number % 4 < 2, bias = number % 4 == 0;
  if (number % 3 == 0 && size > 1)
    return InstanceNorm{.epsilon = kEpsilon, .affine = affine, .bias = bias};
  if (number % 3 == 1) return LayerNorm{.epsilon = kEpsilon, .affine = affine, .bias = bias};
  return GroupNorm{
      .groups = channels % 2 == 0 ? 2 : 1, .epsilon = kEpsilon, .affine = affine, .bias = bias};
}

}  // namespace neap::testing

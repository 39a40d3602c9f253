// The mask of a ReLU's result that fused layers save (layers/fusion/norm_pass.h).
#pragma once

#include <algorithm>
#include <cstdint>

#include "neap/core/base/tensor.h"
#include "neap/layers/fusion/norm_pass.h"

namespace neap::cpu {

// Bit k of byte i: whether element i * MaskElements() + k of y is not 0, or is NaN.
inline void WriteMask(const TensorSpec& spec, const float* y, uint8_t* mask) {
  const int64_t elements = spec.elements(), per_byte = MaskElements(spec.dtype);
  for (int64_t begin = 0; begin < elements; begin += per_byte) {
    unsigned bits = 0;
    for (int64_t i = begin; i < std::min(begin + per_byte, elements); ++i)
      bits |= static_cast<unsigned>(!(y[i] <= 0)) << (i - begin);
    mask[begin / per_byte] = static_cast<uint8_t>(bits);
  }
}

// Whether the gradient of element i of y reaches the ReLU's operand.
inline bool PassesRelu(const uint8_t* mask, int64_t per_byte, int64_t i) {
  return (mask[i / per_byte] >> (i % per_byte) & 1) != 0;
}

}  // namespace neap::cpu

// Shuffles and slices of channels and fixed scales in float64, as layers/channel_shuffle.h,
// layers/channel_slice.h, layers/channel_split.h and layers/scale_shift.h define them.
#pragma once

#include "tests/layers/harness.h"

namespace neap::testing {

// The channel of element `i`, counted in the order N, C, H, W.
inline size_t ChannelOf(const Shape& shape, size_t i) {
  return i / static_cast<size_t>(shape.positions()) % static_cast<size_t>(shape.c());
}

Values ReferenceChannelShuffle(const StepSignature& signature, const Values& given);
Values ReferenceChannelSplit(const StepSignature& signature, const Values& given);
Values ReferenceChannelSlice(const StepSignature& signature, const Values& given);
Values ReferenceScaleShift(const StepSignature& signature, const Values& given);

// What is between a norm and an activation is rounded as if it were stored: in 16 bits the bound of
// a clip is one of its values. In fp32 that would only disturb difference quotients.
std::vector<double> AsStored(const TensorSpec& spec, const std::vector<double>& values);

}  // namespace neap::testing

// Shuffles and slices of channels and fixed scales in float64, as layers/channel_shuffle.h,
// layers/channel_slice.h and layers/scale_shift.h define them.
#pragma once

#include "tests/layers/harness.h"

namespace neap::testing {

Values ReferenceChannelShuffle(const StepSignature& signature, const Values& given);
Values ReferenceChannelSlice(const StepSignature& signature, const Values& given);
Values ReferenceScaleShift(const StepSignature& signature, const Values& given);

}  // namespace neap::testing

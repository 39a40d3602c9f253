// Between N, C, H, W order, in which people and files give numbers, and the order in which a tensor
// lies in memory.
#pragma once

#include "absl/types/span.h"
#include "neap/core/base/tensor.h"

namespace neap {

// Both spans have spec.elements() floats; they must not overlap. Shapes of other than four extents
// are copied as they are. FromNchw, through which every batch goes, uses several threads where
// there is much to move.
void FromNchw(absl::Span<const float> nchw, const TensorSpec& spec, absl::Span<float> stored);
void ToNchw(absl::Span<const float> stored, const TensorSpec& spec, absl::Span<float> nchw);

}  // namespace neap

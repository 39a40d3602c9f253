// Conversion between N, C, H, W order, which files and the API use, and the order in which a tensor
// is stored in memory.
#pragma once

#include "absl/types/span.h"
#include "neap/core/base/tensor.h"

namespace neap {

// Both spans have spec.elements() floats and must not overlap. Shapes of other than four extents
// are copied as they are. FromNchw, which every batch passes through, uses several threads for
// large tensors.
void FromNchw(absl::Span<const float> nchw, const TensorSpec& spec, absl::Span<float> stored);
void ToNchw(absl::Span<const float> stored, const TensorSpec& spec, absl::Span<float> nchw);

}  // namespace neap

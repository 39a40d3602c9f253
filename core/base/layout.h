// Conversion between values in N, C, H, W order, which files and the API use, and the bytes of a
// tensor, which have the order of its layout and its element type. The same for other numbers of
// spatial axes.
#pragma once

#include <cstddef>

#include "absl/types/span.h"
#include "neap/core/base/tensor.h"

namespace neap {

// `nchw` has spec.elements() values, `stored` spec.size_bytes() bytes; they must not overlap.
// Values are rounded to a 16-bit type (core/base/float16.h). Shapes without spatial axes keep their
// order. FromNchw, which every batch passes through, uses several threads for large tensors.
// The type must be a floating-point type.
void FromNchw(absl::Span<const float> nchw, const TensorSpec& spec, std::byte* stored);
void ToNchw(const std::byte* stored, const TensorSpec& spec, absl::Span<float> nchw);

}  // namespace neap

// The checks that every layer's Specify() makes of its inputs. Each returns INVALID_ARGUMENT,
// naming the input and what is wrong with it; the caller prepends the layer's name.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "absl/status/status.h"
#include "neap/core/step/layer.h"
#include "neap/core/step/window.h"

namespace neap {

// 16 TiB: more than any machine has, but small enough that sums over a network's tensors cannot
// overflow.
inline constexpr int64_t kMaxTensorBytes = int64_t{1} << 44;

// Exactly `count` inputs, each a float image {N, C, H, W} with at least one element and at most
// kMaxTensorBytes.
absl::Status CheckImageInputs(const LayerContext& context, size_t count);
// At least `count` such inputs.
absl::Status CheckImageInputsAtLeast(const LayerContext& context, size_t count);

struct Window {
  Extent2d kernel = 1;
  Extent2d stride = 1;
  Extent2d padding = 0;
  Extent2d dilation = 1;
  // The pixels from the first element to the last, for windows that CheckWindow() accepts.
  constexpr Extent2d reach() const {
    return {dilation.h * (kernel.h - 1) + 1, dilation.w * (kernel.w - 1) + 1};
  }
};
// Checks that extents are positive, padding is not negative, and none exceeds kMaxWindowExtent.
absl::Status CheckWindow(const Window& window);
// Height and width of the result of sliding `window` over `input`; an error if the window is larger
// than the padded image.
absl::StatusOr<Extent2d> WindowOutput(const TensorSpec& input, const Window& window);

// The product of numbers whose integer product may overflow, such as the multiply-adds of a step.
double Product(std::initializer_list<int64_t> factors);

// `input` with another shape.
TensorSpec WithShape(const TensorSpec& input, Shape shape);
// `spec` with fp32 elements if its own have 16 bits: the gradient, the momentum and the master of a
// parameter.
TensorSpec InFullPrecision(TensorSpec spec);
// A vector of `size` fp32 values: biases, statistics.
TensorSpec VectorSpec(int64_t size);

}  // namespace neap

// The checks that every layer's Specify() makes of its inputs. Each returns INVALID_ARGUMENT,
// naming the input and what is wrong with it; the caller prepends the layer's name.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "absl/status/status.h"
#include "neap/core/step/layer.h"
#include "neap/core/step/window.h"

namespace neap {

// 16 TiB: more than any machine has, but small enough that sums over a network's tensors cannot
// overflow.
inline constexpr int64_t kMaxTensorBytes = int64_t{1} << 44;

// Exactly `count` inputs, each a float tensor {N, C, T}, {N, C, H, W} or {N, C, D, H, W} with at
// least one element and at most kMaxTensorBytes.
absl::Status CheckSpatialInputs(const LayerContext& context, size_t count);
// The same for at least `count` inputs.
absl::Status CheckSpatialInputsAtLeast(const LayerContext& context, size_t count);
// The same for layers of images alone: each input is {N, C, H, W}.
absl::Status CheckImageInputs(const LayerContext& context, size_t count);

struct Window {
  Extents kernel = 1;
  Extents stride = 1;
  Extents padding = 0;
  Extents dilation = 1;
  // The positions from the first element to the last along an axis, for windows that CheckWindow()
  // accepts.
  constexpr int64_t Reach(int axis) const { return dilation[axis] * (kernel[axis] - 1) + 1; }
};
// Checks that `window` suits the number of axes, extents are positive, padding is not negative, and
// none exceeds kMaxWindowExtent.
absl::Status CheckWindow(const Window& window, int axes);
// The extents of the result of sliding `window`, which CheckWindow() accepts, over `input`; an
// error if the window is larger than the padded input.
absl::StatusOr<Extents> WindowOutput(const TensorSpec& input, const Window& window);

// An error unless `extents`, called `name` in it, has a number for each of so many axes.
absl::Status CheckSuits(std::string_view name, const Extents& extents, int axes);
// "sequence", "image" or "volume".
std::string_view NameOfSpatial(int axes);

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

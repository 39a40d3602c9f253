// Resize: images of another size, interpolated, as by torch.nn.Upsample and ONNX's Resize. Also of
// sequences and volumes; N and C stay.
//
//   step           reads  writes
//   forward        x      y
//   backward_data  dy     dx      an element of dx is the weighted sum of those of dy that read it
//
//   {N, C, in...} -> {N, C, out...}   out = sizes, or in * scales, in fp64, rounded down
//
// Along each axis, output i is at this position among the inputs:
//
//   kHalfPixel     (i + 1/2) * ratio - 1/2     elements are squares around their positions
//   kAlignCorners  i * (in - 1) / (out - 1)    0 if there is one output
//   kAsymmetric    i * ratio                   ratio = in / out, or 1 / scale if that is given
//
// kNearest takes the input at the rounded position, kLinear the mean of the inputs on both sides,
// weighted by distance, and kCubic sums four (Keys 1981, with a cubic_coefficient). Beyond the
// first and the last input are copies of them.
//
//   PyTorch, mode=                      mode      coordinates                   rounding
//   "nearest"                           kNearest  kAsymmetric                   kFloor
//   "nearest-exact"                     kNearest  kHalfPixel                    kPreferCeil
//   "linear", "bilinear", "trilinear"   kLinear   kHalfPixel, or kAlignCorners  -
//   "bicubic"                           kCubic    kHalfPixel, or kAlignCorners  -
//
// The first two are the same if x becomes a whole number of times as large. Extents are those of
// PyTorch, also where the product is rounded: 100 * 0.29 is 28. (ONNX multiplies in fp32, which
// makes 29: nets/onnx/scaled_extents.h.) PyTorch and ONNX Runtime compute positions in fp32. Here
// they are exact, and a scale stands for the simplest fraction that rounds to it: 0.7 is 7/10.
//
//   net.Add("up", Resize{.scales = {2}, .mode = Resize::Mode::kLinear}, {x});
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "neap/core/step/layer.h"
#include "neap/core/step/window.h"

namespace neap {

// INVALID_ARGUMENT unless exactly one of `sizes` and `scales` is given, for the axes of x, and all
// extents are between 1 and 2^30.
struct Resize {
  static constexpr std::string_view kType = "resize";
  enum class Mode : uint8_t { kNearest, kLinear, kCubic };
  enum class Coordinates : uint8_t { kHalfPixel, kAlignCorners, kAsymmetric };
  enum class Rounding : uint8_t { kFloor, kCeil, kPreferFloor, kPreferCeil };  // Prefer: of halves

  std::optional<Extents> sizes = std::nullopt;
  std::vector<double> scales = {};  // one for every axis, or one for each
  Mode mode = Mode::kNearest;
  Coordinates coordinates = Coordinates::kHalfPixel;
  Rounding rounding = Rounding::kPreferCeil;  // of kNearest
  float cubic_coefficient = -0.75F;

  // That along an axis of x; null if there are sizes.
  const double* ScaleOf(int axis) const {
    if (scales.empty()) return nullptr;
    return &scales[scales.size() == 1 ? 0 : static_cast<size_t>(axis)];
  }
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  // `rounding` and `cubic_coefficient` only where they matter or are not the default.
  std::string Parameters() const;
  friend bool operator==(const Resize&, const Resize&) = default;
};

// "nearest", "half_pixel", "prefer_ceil"
std::string_view Name(Resize::Mode mode);
std::string_view Name(Resize::Coordinates coordinates);
std::string_view Name(Resize::Rounding rounding);
absl::StatusOr<Resize::Mode> ParseResizeMode(std::string_view text);
absl::StatusOr<Resize::Coordinates> ParseResizeCoordinates(std::string_view text);
absl::StatusOr<Resize::Rounding> ParseResizeRounding(std::string_view text);

}  // namespace neap

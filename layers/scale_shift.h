// ScaleShift: y = scale * x + shift. Training does not change the two numbers, or it learns one for
// each channel, which begins as that number: layer scale (Touvron et al., 2021) learns the scale.
//
//   step           reads                         writes                          in place
//   forward        x, layer_scale, layer_shift   y                               y over x
//   backward_data  dy, and if the scale is       dx, dlayer_scale, dlayer_shift  dx over dy
//                  learned x, layer_scale
//
// dx = scale * dy. dlayer_scale is the sum of x * dy over the elements of each channel, and
// dlayer_shift that of dy, in fp32 or better and in a fixed order. Backward accumulates natively:
// it adds to a gradient of them that already holds a partial sum, such as that of other images.
//
// params, each only if it is learned: layer_scale {C}, layer_shift {C}, fp32 whatever the type of
// x. Files have them as PyTorch multiplies images by them, {C, 1, 1}; those of sequences are {C,
// 1}.
//
//   x = net.Add("block", ScaleShift{.scale = 1e-6F, .learns_scale = true}, {x});  // ConvNeXt
#pragma once

#include <string>

#include "neap/core/step/layer.h"

namespace neap {

// INVALID_ARGUMENT for numbers that are not finite.
struct ScaleShift {
  static constexpr std::string_view kType = "scale_shift";
  float scale = 1;
  float shift = 0;
  bool learns_scale = false;
  bool learns_shift = false;
  bool learns() const { return learns_scale || learns_shift; }
  // The number of the parameter layer_shift, if it is learned.
  int shift_param() const { return learns_scale ? 1 : 0; }
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;
  friend bool operator==(const ScaleShift&, const ScaleShift&) = default;
};

}  // namespace neap

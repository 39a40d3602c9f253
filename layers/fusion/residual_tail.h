// The end of a residual branch and its sum with what the branch bypasses, in one pass over memory:
//
//   y = stochastic_depth(scale * x_0 + shift) + x_1
//
// Networks do not contain it. The fusion pass (core/program/fuse.h) makes it of a ScaleShift that
// learns no shift, a StochasticDepth, or both in this order, and the Add of two tensors behind
// them. It computes the same bits as these layers one after another: what they would store is
// rounded to the tensors' type. Only dlayer_scale differs, where the branch of a dropped image is
// not finite: the layers apart sum its product with 0, which is NaN.
//
//   step           reads                                 writes                in place
//   forward        x_0, x_1, [layer_scale], [iteration]  y                     y over x_0 or x_1
//   backward_data  dy, [x_0, layer_scale], [iteration]   dx_0, [dlayer_scale]  dx_0 over dy
//
// dx_1 is dy, the same tensor (LayerSpec::passes_linear_grad). Backward reads x_0 only if the scale
// is learned. The branch of an image that is dropped counts as 0 whatever it is, also NaN, in y and
// in dlayer_scale, so kernels need not read it. Without StochasticDepth, or in inference, there is
// no iteration.
//
// param 0: layer_scale {C}, fp32, if the scale is learned (layers/scale_shift.h). Images are
// independent, and backward accumulates natively into dlayer_scale.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "neap/core/step/layer.h"
#include "neap/layers/dropout.h"
#include "neap/layers/scale_shift.h"

namespace neap {

// Errors: those of its layers; INVALID_ARGUMENT also for neither of the two, a shift that is
// learned, and an x_1 that is not like x_0.
struct ResidualTail {
  static constexpr std::string_view kType = "residual_tail";
  std::optional<ScaleShift> scale = {};
  std::optional<StochasticDepth> drop = {};
  bool learns_scale() const { return scale.has_value() && scale->learns_scale; }
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;
  friend bool operator==(const ResidualTail&, const ResidualTail&) = default;
};

}  // namespace neap

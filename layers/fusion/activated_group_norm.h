// A group norm or an instance norm together with the activation behind it, in as many passes over
// memory as the norm alone takes: y = activation(norm(x)).
//
// Networks do not contain it. The fusion pass (core/program/fuse.h) makes it of a GroupNorm or an
// InstanceNorm and an activation of the variant below. It computes the same bits as these layers
// one after another: what the norm would store is rounded to the tensors' type, and so is its
// gradient.
//
// An instance norm subtracts whatever its convolution adds to a channel. Where a convolution's
// kernels add its bias in a pass of their own, fusion therefore hands the bias to the norm, which
// leaves it out: `absorbs_bias`, with an activation or none. The results are those of the two
// layers but for rounding, which is smaller, and the gradient of the bias is 0, not what rounding
// leaves of it.
//
//   step                  reads                             writes
//   forward (training)    x, [gamma, [beta]]                y, mean, invstd
//     rerun               x, [gamma, [beta]], mean, invstd  y
//   forward (inference)   x, [gamma, [beta]]                y
//   backward_data         x, dy, [gamma, [beta]],           dx, [dgamma, [dbeta]]
//                         mean, invstd
//
// Backward normalises x again to get what the activation got, so that neither this nor y is kept
// for it. y may overwrite x, and dx dy. Parameters, saved tensors and all else are those of the
// norm (layers/norm/group_norm.h). A bias that it absorbs is param 2, which forward reads without
// need, and backward_data writes its gradient.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "neap/core/step/layer.h"
#include "neap/core/step/operands.h"
#include "neap/layers/activation.h"
#include "neap/layers/norm/group_norm.h"

namespace neap {

struct ActivatedGroupNorm {
  static constexpr std::string_view kType = "activated_group_norm";
  using Norm = std::variant<GroupNorm, InstanceNorm>;
  using Activation = std::variant<std::monostate, Relu, LeakyRelu, Silu, Gelu>;
  Norm norm = {};
  Activation activation = {};
  bool absorbs_bias = false;  // of an InstanceNorm with weight and bias
  // Errors: those of the norm; INVALID_ARGUMENT also for neither an activation nor an absorbed
  // bias, and for a norm that absorbs none.
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;
  Layer norm_layer() const;
  std::optional<Layer> activation_layer() const;
  friend bool operator==(const ActivatedGroupNorm&, const ActivatedGroupNorm&) = default;
};

// The gradient of a bias that is absorbed.
inline constexpr Operand kAbsorbedBiasGrad = operands::ParamGrad(2);
// Whether the norm is one that can absorb a bias.
bool CanAbsorbBias(const ActivatedGroupNorm::Norm& norm);

// The norm of such a layer; any other layer as it is.
Layer WithoutActivation(const Layer& layer);

}  // namespace neap

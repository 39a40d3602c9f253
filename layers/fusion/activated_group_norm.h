// A group norm or an instance norm together with the activation behind it, in as many passes over
// memory as the norm alone takes: y = activation(norm(x)).
//
// Networks do not contain it. The fusion pass (core/program/fuse.h) makes it of a GroupNorm or an
// InstanceNorm and an activation of the variant below. It computes the same bits as these layers
// one after another: what the norm would store is rounded to the tensors' type, and so is its
// gradient.
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
// norm (layers/norm/group_norm.h).
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "neap/core/step/layer.h"
#include "neap/layers/activation.h"
#include "neap/layers/norm/group_norm.h"

namespace neap {

struct ActivatedGroupNorm {
  static constexpr std::string_view kType = "activated_group_norm";
  using Norm = std::variant<GroupNorm, InstanceNorm>;
  using Activation = std::variant<Relu, LeakyRelu, Silu, Gelu>;
  Norm norm = {};
  Activation activation = {};
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;
  Layer norm_layer() const;
  Layer activation_layer() const;
  friend bool operator==(const ActivatedGroupNorm&, const ActivatedGroupNorm&) = default;
};

// The norm of such a layer; any other layer as it is.
Layer WithoutActivation(const Layer& layer);

}  // namespace neap

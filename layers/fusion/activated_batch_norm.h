// Batch normalisation together with the activation of mobile networks behind it, in as many passes
// over memory as batch normalisation alone takes: y = f(batch_norm(x)), where f is Clip (ReLU6),
// HardSwish or Silu. A ReLU is a matter of layers/fusion/fused_batch_norm.h.
//
// Networks do not contain it. The fusion pass (core/program/fuse.h) makes it. It computes the same
// bits as the two layers one after another. The output of the batch norm, which HardSwish and Silu
// would keep for backward, is never stored: backward normalises x again. If a 1x1 convolution takes
// in the batch norm (layers/fusion/folded_convolution.h), the activation stays apart.
//
//   step                 reads                                      writes
//   forward (training)   x, gamma, beta                             y, mean, invstd
//     rerun              x, gamma, beta, mean, invstd               y
//   forward (inference)  x, gamma, beta, running_mean, running_var  y
//   backward_data        x, dy, gamma, mean, invstd, beta           dx, dgamma, dbeta
//
// Parameters, states, saved tensors and what may be overwritten are as in layers/batch_norm.h.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "neap/core/step/layer.h"
#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"

namespace neap {

struct ActivatedBatchNorm {
  static constexpr std::string_view kType = "activated_batch_norm";
  using Activation = std::variant<Clip, HardSwish, Silu>;
  BatchNorm norm = {};
  Activation activation = {};
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;
  friend bool operator==(const ActivatedBatchNorm&, const ActivatedBatchNorm&) = default;
};

}  // namespace neap

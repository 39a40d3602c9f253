// Batch normalisation over N, H, W per channel, as torch.nn.BatchNorm2d.
//
//   step                 reads                                      writes
//   forward (training)   x, gamma, beta                             y, mean, invstd
//     rerun              x, gamma, beta, mean, invstd               y
//   forward (inference)  x, gamma, beta, running_mean, running_var  y
//   backward_data        x, dy, gamma, mean, invstd                 dx, dgamma, dbeta
//
// In training, forward also accumulates running_mean and running_var; y may overwrite x, and dx dy.
// params: 0 weight (gamma), 1 bias (beta), both {C}; saved: 0 mean, 1 invstd = 1 / sqrt(biased
// variance + epsilon); states: 0 running_mean, which begins at 0, 1 running_var (unbiased), which
// begins at 1: running = (1 - momentum) * running + momentum * batch. A rerun gives y the same
// bits, because forward computes the statistics and then runs the same normalisation that the rerun
// repeats. Lower() refuses training with one value per channel (LayerSpec::values_per_variance), as
// PyTorch does; inference reads no variance of the batch.
#pragma once

#include "neap/core/step/layer.h"

namespace neap {

struct BatchNorm {
  static constexpr std::string_view kType = "batch_norm";
  float epsilon = 1e-5F;
  float momentum = 0.1F;
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;
  friend bool operator==(const BatchNorm&, const BatchNorm&) = default;
};

// Appends the parameters and states of a batch norm, whose spec is `norm`, to those of a fused
// layer. `owner` is the batch norm's (ParamSpec::owner).
void AppendPersistent(const LayerSpec& norm, int owner, LayerSpec& fused);

}  // namespace neap

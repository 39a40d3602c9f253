// Stochastic gradient descent with momentum, as torch.optim.SGD (dampening 0): for every parameter
// of one layer, or of several (core/program/update_groups.h), whose tensors are numbered through
//   v = momentum * v + g + weight_decay * w;   w = w - learning_rate * v
//
//   step    reads                          accumulates                     writes
//   update  iteration, param_grad 0..n-1   param 0..n-1, optimizer 0..n-1
//     16 bits                              master i instead of param i     param i
//     scaled loss  ..., loss_scale         ..., state 0..m-1, backup 0..m-1
//
// The optimizer tensors hold v, which is 0 at first; there are none if momentum is 0. The learning
// rate comes from the iteration's scalars, the rest is fixed. Gradients, v and arithmetic are fp32.
// A parameter whose kernels read 16 bits has an fp32 master, which is updated and then rounded to
// the parameter; so has no update too small to count. With a scaled loss (core/step/loss_scale.h),
// g is the gradient divided by the scale, and the update also keeps or restores those states of the
// layers that forward accumulates into. A step with an overflow changes nothing; it still writes
// 16-bit parameters, whose old bytes may be gone, from their masters.
#pragma once

#include "absl/status/status.h"

namespace neap {

struct Sgd {
  float momentum = 0.9F;
  float weight_decay = 0.0F;
  friend bool operator==(const Sgd&, const Sgd&) = default;
};

// Errors: INVALID_ARGUMENT naming the field: a momentum outside [0, 1], a weight decay that is
// negative or infinite, or NaN in either.
absl::Status CheckSgd(const Sgd& sgd);

}  // namespace neap

// Stochastic gradient descent with momentum, as torch.optim.SGD (dampening 0): for every parameter
// of one layer
//   v = momentum * v + g + weight_decay * w;   w = w - learning_rate * v
//
//   step    reads                          accumulates
//   update  iteration, param_grad 0..n-1   param 0..n-1, optimizer 0..n-1
//
// The optimizer tensors hold v, which is 0 at first; there are none if momentum is 0. The learning
// rate comes from the iteration's scalars, the rest is fixed.
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

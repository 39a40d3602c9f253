// The optimizer: how an update changes every parameter w of one layer, or of several
// (core/program/update_groups.h), by its gradient g.
//
//   SGD with momentum, as torch.optim.SGD (dampening 0):
//     g = g + weight_decay * w
//     v = momentum * v + g
//     w = w - learning_rate * v                             or, nesterov, of g + momentum * v
//   AdamW, as torch.optim.AdamW, but t counts the training's updates, not the parameter's:
//     w = w - learning_rate * weight_decay * w
//     m = beta1 * m + (1 - beta1) * g
//     v = beta2 * v + (1 - beta2) * g * g
//     w = w - learning_rate * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon)
//   before, if gradients are clipped, as torch.nn.utils.clip_grad_norm_:
//     g = g * min(1, clip_norm / (norm + 1e-6))             norm: of all gradients together
//   after, if weights are averaged:
//     average = average_decay * average + (1 - average_decay) * w
//
//   step    reads                          accumulates                       writes
//   update  iteration, param_grad 0..n-1   param 0..n-1, optimizer 0..n-1    -
//     AdamW                                ..., second_moment 0..n-1
//     averaged                             ..., average 0..n-1
//     16 bits                              master i instead of param i       param i
//     clipped      ..., gradient_norm
//     scaled loss  ..., loss_scale         ..., state 0..m-1, backup 0..m-1
//   check_gradients, if clipped
//           param_grad 0..n-1              gradient_norm, but for the first  gradient_norm
//
// The tensors are numbered through if there are several layers. `optimizer` is SGD's v or AdamW's
// m; without momentum, SGD has none. These begin with 0, and averages with the weights. The
// learning rate and t come from the iteration's scalars, the rest is fixed. Gradients and
// arithmetic are fp32, and so is all that an optimizer keeps. A parameter that kernels read in 16
// bits has an fp32 master, which is updated, averaged and then rounded to the parameter, so updates
// too small for 16 bits are not lost.
//
// With a scaled loss (core/step/loss_scale.h), g is the gradient divided by the scale, and the
// update also keeps or restores those states of the layers that forward accumulates into. A step
// with an overflow changes nothing and is not counted by t; it still writes 16-bit parameters,
// whose old bytes may be gone, from their masters.
//
// The operand gradient_norm is the square of the norm, of gradients that are still multiplied by
// the scale. Checks come after the last gradient and add the sums of squares of the gradients one
// after another, in the order of the parameters' names, so that the result depends neither on how
// steps and layers are put together nor on the plan.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace neap {

struct Optimizer {
  enum class Rule : uint8_t { kSgd, kAdamW };
  Rule rule = Rule::kSgd;
  float momentum = 0.9F;                                // of SGD
  float weight_decay = 0.0F;                            // of AdamW, apart from the gradient
  bool nesterov = false;                                // of SGD
  float beta1 = 0.9F, beta2 = 0.999F, epsilon = 1e-8F;  // of AdamW
  float clip_norm = 0;      // the largest norm of all gradients together; 0: any
  float average_decay = 0;  // of the moving average of every weight; 0: there is none

  bool keeps_moment() const { return rule == Rule::kAdamW || momentum != 0; }
  bool keeps_second_moment() const { return rule == Rule::kAdamW; }
  bool keeps_average() const { return average_decay != 0; }
  bool clips() const { return clip_norm != 0; }
  friend bool operator==(const Optimizer&, const Optimizer&) = default;
};

// Errors: INVALID_ARGUMENT naming the field: a momentum, beta or average decay outside [0, 1], of
// which only the momentum may be 1; an epsilon that is not positive; a weight decay or norm that is
// negative or infinite; NaN in any of them; nesterov without momentum.
absl::Status CheckOptimizer(const Optimizer& optimizer);

}  // namespace neap

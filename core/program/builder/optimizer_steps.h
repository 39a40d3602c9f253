// The optimizer's steps of a program: the update of the parameters of one layer or several, and
// what clipped gradients and a scaled loss need (core/step/optimizer.h, core/step/loss_scale.h).
// Private to the program's builder.
//
// The operands of several layers are numbered through: param[2] is the first of the second layer if
// the first one has two. The step has the id and the layer that the caller gives it. If the
// optimizer is sharded (core/program/shards.h), it updates the rank's slices, and has no operands
// for parameters of which the rank has none.
//
//   OptimizerSteps steps = {.iteration = iteration, .loss_scale = program.loss_scale};
//   Step update = steps.Update({{&fc_persistent, &fc_grads}, {&bn_persistent, &bn_grads}});
//   update.reads;  // iteration, fc.weight.grad, fc.bias.grad, bn.weight.grad, bn.bias.grad
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "neap/core/program/persistent_tensors.h"
#include "neap/core/program/program.h"

namespace neap {

// A layer of an update; both are the caller's.
struct UpdatedLayer {
  const LayerPersistent* persistent = nullptr;
  const std::vector<TensorId>* gradients = nullptr;  // of its parameters; empty if it has none
};

// The gradient of a parameter.
struct NamedGradient {
  std::string name;
  LayerId layer;
  TensorId gradient;
};

struct OptimizerSteps {
  TensorId iteration;
  std::optional<TensorId> loss_scale;                    // if the loss is scaled
  std::optional<TensorId> gradient_norm = std::nullopt;  // if gradients are clipped

  Step Update(const std::vector<UpdatedLayer>& layers) const;
  // With a scaled loss.
  Step Check(const std::vector<UpdatedLayer>& layers) const;
  // With clipped gradients: the steps that compute the norm of them all. They read them in the
  // order of their names, so that its bits depend neither on fusion nor on groups. Each has the
  // layer of its last gradient.
  std::vector<Step> NormSteps(std::vector<NamedGradient> gradients) const;
  // With a scaled loss.
  Step UpdateScale() const;
};

}  // namespace neap

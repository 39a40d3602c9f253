#include "neap/core/program/builder/optimizer_steps.h"

#include <algorithm>

#include "neap/core/program/update_groups.h"

namespace neap {
namespace {

// Calls visit(parameter, gradient, index) for the parameters of which this rank updates any
// element, with their number in the step. Those that a layer has borrowed are updated with their
// owner.
template <typename Visit>
void ForEachUpdated(const std::vector<UpdatedLayer>& layers, const Visit& visit) {
  int index = 0;
  for (const UpdatedLayer& layer : layers) {
    for (size_t i = 0; i < layer.gradients->size(); ++i) {
      const PersistentParam& param = layer.persistent->params[i];
      const bool has_any = !param.owned.has_value() || param.owned->count > 0;
      if (has_any && !param.is_borrowed) visit(param, (*layer.gradients)[i], index++);
    }
  }
}

void ReadGradients(const std::vector<UpdatedLayer>& layers, Step& step) {
  ForEachUpdated(layers, [&](const PersistentParam& param, TensorId gradient, int index) {
    step.reads.push_back({gradient, {Slot::kParamGrad, index}, param.owned});
  });
}

void Accumulate(std::optional<TensorId> tensor, Slot slot, int index, Step& step) {
  if (tensor.has_value()) step.accumulates.push_back({*tensor, {slot, index}});
}

// A slice is accumulated, since the rest of the parameter keeps its value.
void UpdateParameters(const std::vector<UpdatedLayer>& layers, Step& step) {
  ForEachUpdated(layers, [&](const PersistentParam& param, TensorId /*gradient*/, int index) {
    const bool overwrites = param.master.has_value() && !param.owned.has_value();
    (overwrites ? step.writes : step.accumulates)
        .push_back({param.id, {Slot::kParam, index}, param.owned});
    Accumulate(param.master, Slot::kMaster, index, step);
    Accumulate(param.moment, Slot::kOptimizer, index, step);
    Accumulate(param.second_moment, Slot::kSecondMoment, index, step);
    Accumulate(param.average, Slot::kAverage, index, step);
  });
}

void KeepOrRestoreStates(const std::vector<UpdatedLayer>& layers, Step& step) {
  int index = 0;
  for (const UpdatedLayer& layer : layers) {
    const LayerPersistent& own = *layer.persistent;
    for (size_t i = 0; i < own.backups.size(); ++i) {
      if (!own.backups[i].has_value()) continue;
      Accumulate(own.states[i], Slot::kState, index, step);
      Accumulate(own.backups[i], Slot::kBackup, index++, step);
    }
  }
}

}  // namespace

Step OptimizerSteps::Update(const std::vector<UpdatedLayer>& layers) const {
  Step step = {.id = {}, .layer = {}, .phase = Phase::kUpdate};
  step.reads.push_back({iteration, {Slot::kIteration}});
  ReadGradients(layers, step);
  UpdateParameters(layers, step);
  if (gradient_norm.has_value()) step.reads.push_back({*gradient_norm, {Slot::kGradientNorm}});
  if (loss_scale.has_value()) step.reads.push_back({*loss_scale, {Slot::kLossScale}});
  KeepOrRestoreStates(layers, step);
  return step;
}

Step OptimizerSteps::Check(const std::vector<UpdatedLayer>& layers) const {
  Step step = {.id = {}, .layer = {}, .phase = Phase::kCheckGradients};
  ReadGradients(layers, step);
  if (loss_scale.has_value()) step.accumulates.push_back({*loss_scale, {Slot::kLossScale}});
  return step;
}

std::vector<Step> OptimizerSteps::NormSteps(std::vector<NamedGradient> gradients) const {
  std::sort(gradients.begin(), gradients.end(),
            [](const NamedGradient& a, const NamedGradient& b) { return a.name < b.name; });
  std::vector<Step> steps;
  for (const NamedGradient& gradient : gradients) {
    const bool is_first = steps.empty();
    if (is_first || steps.back().reads.size() == kMaxTensorsOfGroup) {
      Step& step = steps.emplace_back(Check({}));
      (is_first ? step.writes : step.accumulates)
          .push_back({*gradient_norm, {Slot::kGradientNorm}});
    }
    Step& step = steps.back();
    step.layer = gradient.layer;
    step.reads.push_back(
        {gradient.gradient, {Slot::kParamGrad, static_cast<int>(step.reads.size())}});
  }
  return steps;
}

Step OptimizerSteps::UpdateScale() const {
  Step step = {.id = {}, .layer = {}, .phase = Phase::kUpdateScale};
  step.accumulates = {{*loss_scale, {Slot::kLossScale}}};
  return step;
}

}  // namespace neap

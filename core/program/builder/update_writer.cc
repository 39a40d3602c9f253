#include "neap/core/program/builder/update_writer.h"

#include <algorithm>
#include <utility>

#include "neap/core/base/units.h"
#include "neap/core/program/update_groups.h"

namespace neap {
namespace {

// Of a layer for whose backward gradients wait. Backward of a layer with a larger output takes a
// hundred microseconds or more on the fastest GPUs, and a launch a few.
constexpr int64_t kMaxOutputBytes = 32 * kMiB;

}  // namespace

bool UpdateWriter::ChecksGradients() const {
  return ScalesLoss(program_.net) || program_.options.optimizer.clips();
}

std::vector<std::vector<LayerId>> UpdateWriter::Groups(const std::vector<LayerId>& layers) const {
  UpdateGroupRules rules = {.bytes = program_.options.update_group_bytes};
  if (!ChecksGradients()) rules.largest_output_bytes = kMaxOutputBytes;
  return UpdateGroups(graph_, layers, rules);
}

void UpdateWriter::Group() {
  std::vector<LayerId> learning = LearningLayers(graph_);
  std::erase_if(learning, [this](LayerId layer) { return !tensors_[layer.index()].needs_grad; });
  for (std::vector<LayerId>& group : Groups(learning)) {
    const LayerId last = group.back();
    tensors_[last.index()].updated_group = std::move(group);
  }
}

void UpdateWriter::AfterBackward(LayerId layer) {
  const std::vector<LayerId>& group = tensors_[layer.index()].updated_group;
  if (group.empty()) return;
  if (!ChecksGradients()) return Add(steps_.Update(Updated(group)), layer);
  if (!steps_.gradient_norm.has_value()) Add(steps_.Check(Updated(group)), layer);
}

std::vector<NamedGradient> UpdateWriter::ParamGrads() const {
  std::vector<NamedGradient> gradients;
  for (const ResolvedLayer& layer : graph_.layers) {
    const LayerTensors& own = tensors_[layer.id.index()];
    for (size_t i = 0; i < own.param_grads.size(); ++i) {
      if (own.persistent.params[i].is_borrowed) continue;
      gradients.push_back({ParamName(layer, layer.spec.params[i]), layer.id, own.param_grads[i]});
    }
  }
  return gradients;
}

void UpdateWriter::End() {
  if (!ChecksGradients()) return;
  if (steps_.gradient_norm.has_value()) {
    for (const Step& step : steps_.NormSteps(ParamGrads())) Add(step, step.layer);
  }
  std::vector<LayerId> updated;
  for (size_t i = graph_.layers.size(); i-- > 0;) {
    const auto& backups = tensors_[i].persistent.backups;
    const bool restores = std::any_of(backups.begin(), backups.end(),
                                      [](const auto& backup) { return backup.has_value(); });
    if (!tensors_[i].param_grads.empty() || restores) updated.push_back(graph_.layers[i].id);
  }
  for (const std::vector<LayerId>& group : Groups(updated))
    Add(steps_.Update(Updated(group)), group.back());
  if (ScalesLoss(program_.net)) Add(steps_.UpdateScale(), graph_.layers.back().id);
}

std::vector<UpdatedLayer> UpdateWriter::Updated(const std::vector<LayerId>& group) const {
  std::vector<UpdatedLayer> updated;
  for (LayerId id : group) {
    const LayerTensors& own = tensors_[id.index()];
    updated.push_back({&own.persistent, &own.param_grads});
  }
  return updated;
}

void UpdateWriter::Add(Step step, LayerId layer) {
  if (step.writes.empty() && step.accumulates.empty()) return;  // of other ranks' slices
  step.id = StepId(program_.steps.size());
  step.layer = LayerId(program_.layers.size() - graph_.layers.size() + layer.index());
  program_.steps.push_back(std::move(step));
}

}  // namespace neap

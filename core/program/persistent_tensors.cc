#include "neap/core/program/persistent_tensors.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/core/step/loss_scale.h"
#include "neap/core/step/specify.h"

namespace neap {

namespace {

const std::string& OwnerName(const ResolvedLayer& layer, int owner) {
  return layer.owners.empty() ? layer.name : layer.owners[static_cast<size_t>(owner)];
}

}  // namespace

std::string ParamName(const ResolvedLayer& layer, const ParamSpec& param) {
  return absl::StrCat(OwnerName(layer, param.owner), ".", param.name);
}

void PersistentTensors::Adopt(const Program& whole) {
  program_.loss_scale = whole.loss_scale;
  for (const Tensor& tensor : whole.tensors) {
    if (!IsPersistent(tensor.role)) continue;
    adopted_.emplace(tensor.name, tensor.id);
    program_.tensors.push_back(tensor);
  }
}

LayerPersistent PersistentTensors::Make(const ResolvedLayer& layer) {
  LayerPersistent made;
  for (const ParamSpec& param : layer.spec.params) MakeParam(layer, param, made);
  for (const StateSpec& state : layer.spec.states) MakeState(layer, state, made);
  return made;
}

void PersistentTensors::MakeLossScale() {
  if (!scales_loss()) return;
  program_.loss_scale = Add({.name = "loss_scale",
                             .role = Role::kOptimizer,
                             .spec = VectorSpec(kLossScaleValues),
                             .init = {Init::Kind::kFirst, LossScale::kInitial}});
}

bool PersistentTensors::scales_loss() const {
  return ScalesLoss(program_.net) && program_.options.trainable;
}

TensorId PersistentTensors::Add(Tensor tensor) {
  const auto adopted = adopted_.find(tensor.name);
  const bool known = adopted != adopted_.end();
  tensor.id = known ? adopted->second : TensorId(program_.tensors.size());
  const bool matches = known && program_.tensor(tensor.id) == tensor;
  if (!adopted_.empty() && !matches && !unknown_.has_value()) {
    unknown_ = absl::StrCat(tensor.name, " (", tensor.spec.ToString(), ")");
  }
  if (!known) program_.tensors.push_back(tensor);
  return tensor.id;
}

void PersistentTensors::MakeParam(const ResolvedLayer& layer, const ParamSpec& param,
                                  LayerPersistent& made) {
  const bool trainable = program_.options.trainable;
  const bool has_master = trainable && Is16Bit(param.tensor.dtype);
  const std::string name = ParamName(layer, param);
  const TensorSpec full = InFullPrecision(param.tensor);
  const TensorId stored = Add({.name = name,
                               .role = has_master ? Role::kMaster : Role::kParam,
                               .spec = has_master ? full : param.tensor,
                               .init = param.init,
                               .saved_shape = param.saved_shape});
  if (has_master) {
    made.masters.push_back(stored);
    made.params.push_back(
        Add({.name = absl::StrCat(name, ".", std::string(Name(param.tensor.dtype))),
             .role = Role::kParam,
             .spec = param.tensor,
             .in_checkpoint = false,
             .copy_of = stored}));
  } else {
    made.masters.push_back(std::nullopt);
    made.params.push_back(stored);
  }
  made.momenta.push_back(std::nullopt);
  if (!trainable || program_.options.sgd.momentum == 0) return;
  made.momenta.back() = Add({.name = absl::StrCat(name, ".momentum"),
                             .role = Role::kOptimizer,
                             .spec = full,
                             .saved_shape = param.saved_shape});
}

void PersistentTensors::MakeState(const ResolvedLayer& layer, const StateSpec& state,
                                  LayerPersistent& made) {
  Tensor tensor = {.name = absl::StrCat(OwnerName(layer, state.owner), ".", state.name),
                   .role = Role::kState,
                   .spec = state.tensor,
                   .init = state.init,
                   .in_checkpoint = state.in_checkpoint};
  made.states.push_back(Add(tensor));
  made.backups.push_back(std::nullopt);
  if (!scales_loss() || !state.accumulates) return;
  tensor.name += ".backup";
  tensor.in_checkpoint = false;
  tensor.copy_of = made.states.back();
  made.backups.back() = Add(tensor);
}

}  // namespace neap

#include "neap/core/program/persistent_tensors.h"

#include <string_view>
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
  const bool matches = known && program_.tensor(tensor.id).role == tensor.role &&
                       program_.tensor(tensor.id).spec == tensor.spec;
  if (!adopted_.empty() && !matches && !unknown_.has_value()) {
    unknown_ = absl::StrCat(tensor.name, " (", tensor.spec.ToString(), ")");
  }
  if (!known) program_.tensors.push_back(tensor);
  return tensor.id;
}

std::vector<Slice> PersistentTensors::ShardsOf(const std::string& param, int64_t elements) {
  const bool sharded = program_.options.shard.ranks > 1 && program_.options.trainable;
  if (!sharded) return {};
  const auto adopted = adopted_.find(param);
  return adopted != adopted_.end() ? program_.tensor(adopted->second).shards
                                   : division_.Next(elements);
}

void PersistentTensors::MakeParam(const ResolvedLayer& layer, const ParamSpec& param,
                                  LayerPersistent& made) {
  const bool trainable = program_.options.trainable;
  const bool has_master = trainable && Is16Bit(param.tensor.dtype);
  const std::string name = ParamName(layer, param);
  Tensor tensor = {.name = name, .role = Role::kParam, .spec = param.tensor};
  if (has_master) absl::StrAppend(&tensor.name, ".", std::string(Name(param.tensor.dtype)));
  tensor.shards = ShardsOf(tensor.name, tensor.spec.elements());
  std::optional<Slice> held;
  if (!tensor.shards.empty()) held = program_.OwnShard(tensor);
  made.owned.push_back(held);

  // What the optimizer keeps: the whole, or as much of it as the rank updates.
  const bool keeps_any = !held.has_value() || held->count > 0;
  Tensor kept = {.name = name,
                 .role = Role::kMaster,
                 .spec = InFullPrecision(param.tensor),
                 .init = param.init,
                 .saved_shape = param.saved_shape,
                 .held = held};
  if (held.has_value()) kept.spec = {.shape = Shape({held->count}), .dtype = kept.spec.dtype};
  made.masters.push_back(std::nullopt);
  if (has_master) {
    tensor.in_checkpoint = false;
    if (keeps_any) made.masters.back() = Add(kept);
    if (!held.has_value()) tensor.copy_of = made.masters.back();
  } else {
    tensor.init = param.init;
    tensor.saved_shape = param.saved_shape;
  }
  made.params.push_back(Add(tensor));

  const Optimizer& optimizer = program_.options.optimizer;
  const bool is_sgd = optimizer.rule == Optimizer::Rule::kSgd;
  kept.role = Role::kOptimizer;
  kept.init = Init();
  const auto keep = [&](bool keeps, std::string_view suffix) -> std::optional<TensorId> {
    if (!trainable || !keeps || !keeps_any) return std::nullopt;
    kept.name = absl::StrCat(name, std::string(suffix));
    return Add(kept);
  };
  made.moments.push_back(keep(optimizer.keeps_moment(), is_sgd ? ".momentum" : ".exp_avg"));
  made.second_moments.push_back(keep(optimizer.keeps_second_moment(), ".exp_avg_sq"));
  kept.starts_as = has_master ? made.masters.back() : made.params.back();
  made.averages.push_back(keep(optimizer.keeps_average(), ".average"));
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

#include "neap/core/program/persistent_tensors.h"

#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/core/step/loss_scale.h"
#include "neap/core/step/specify.h"

namespace neap {

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
  std::vector<std::pair<std::string, PersistentParam>> own;
  for (const ParamSpec& param : layer.spec.params) {
    std::string name = ParamName(layer, param);
    const auto known = params_.find(name);  // of a layer that shares it
    const bool is_known = known != params_.end();
    made.params.push_back(is_known ? known->second : MakeParam(name, param));
    if (!is_known) own.emplace_back(std::move(name), made.params.back());
  }
  for (auto& [name, param] : own) params_.emplace(std::move(name), param);
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
  if (known) return tensor.id;
  tensor.home = homes_.Of(tensor);
  program_.tensors.push_back(tensor);
  return program_.tensors.back().id;
}

std::vector<Slice> PersistentTensors::ShardsOf(const std::string& param, int64_t elements) {
  const bool sharded = program_.options.shard.ranks > 1 && program_.options.trainable;
  if (!sharded) return {};
  const auto adopted = adopted_.find(param);
  return adopted != adopted_.end() ? program_.tensor(adopted->second).shards
                                   : division_.Next(elements);
}

PersistentParam PersistentTensors::MakeParam(const std::string& name, const ParamSpec& param) {
  const bool trainable = program_.options.trainable;
  const bool has_master = trainable && Is16Bit(param.tensor.dtype);
  Tensor tensor = {.name = name, .role = Role::kParam, .spec = param.tensor};
  if (has_master) absl::StrAppend(&tensor.name, ".", std::string(Name(param.tensor.dtype)));
  tensor.shards = ShardsOf(tensor.name, tensor.spec.elements());
  PersistentParam made;
  if (!tensor.shards.empty()) made.owned = program_.OwnShard(tensor);

  const Shape& in_files = param.in_files.shape;
  const Shape& saved_shape = in_files.rank() > 0 ? in_files : param.saved_shape;

  // What the optimizer keeps: the whole, or as much of it as the rank updates.
  const bool keeps_any = !made.owned.has_value() || made.owned->count > 0;
  Tensor kept = {.name = name,
                 .role = Role::kMaster,
                 .spec = InFullPrecision(param.tensor),
                 .init = param.init,
                 .saved_shape = saved_shape,
                 .is_transposed = param.in_files.transposed,
                 .held = made.owned};
  if (made.owned.has_value())
    kept.spec = {.shape = Shape({made.owned->count}), .dtype = kept.spec.dtype};
  if (has_master) {
    tensor.in_checkpoint = false;
    if (keeps_any) made.master = Add(kept);
    if (!made.owned.has_value()) tensor.copy_of = made.master;
  } else {
    tensor.init = param.init;
    tensor.saved_shape = saved_shape;
    tensor.is_transposed = param.in_files.transposed;
  }
  made.id = Add(tensor);

  const Optimizer& optimizer = program_.options.optimizer;
  const bool is_sgd = optimizer.rule == Optimizer::Rule::kSgd;
  kept.role = Role::kOptimizer;
  kept.init = Init();
  const auto keep = [&](bool keeps, std::string_view suffix) -> std::optional<TensorId> {
    if (!trainable || !keeps || !keeps_any) return std::nullopt;
    kept.name = absl::StrCat(name, std::string(suffix));
    return Add(kept);
  };
  made.moment = keep(optimizer.keeps_moment(), is_sgd ? ".momentum" : ".exp_avg");
  made.second_moment = keep(optimizer.keeps_second_moment(), ".exp_avg_sq");
  kept.starts_as = has_master ? made.master : made.id;
  made.average = keep(optimizer.keeps_average(), ".average");
  kept.starts_as = std::nullopt;
  kept.in_checkpoint = false;
  made.gradient = keep(program_.options.accumulation.is_on(), ".grad");
  return made;
}

void PersistentTensors::MakeState(const ResolvedLayer& layer, const StateSpec& state,
                                  LayerPersistent& made) {
  Tensor tensor = {.name = StateName(layer, state),
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

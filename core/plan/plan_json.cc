// Writes the plan file: Plan::ToJson.
#include <nlohmann/json.hpp>
#include <utility>

#include "neap/core/plan/plan.h"

namespace neap {
namespace {

using Json = nlohmann::ordered_json;

Json Ids(const std::vector<TensorId>& ids) {
  Json out = Json::array();
  for (TensorId id : ids) out.push_back(id.value);
  return out;
}

Json ToJson(const Region& region) { return {{"offset", region.offset}, {"bytes", region.bytes}}; }

Json ToJson(const PlanTensor& tensor) {
  Json shape = Json::array();
  for (int64_t dim : tensor.shape.dims()) shape.push_back(dim);
  Json out = {{"id", tensor.id.value}, {"name", tensor.name},         {"role", Name(tensor.role)},
              {"shape", shape},        {"dtype", Name(tensor.dtype)}, {"bytes", tensor.bytes}};
  if (tensor.on_host()) out["host_offset"] = *tensor.host_offset;
  if (tensor.is_external) out["external"] = true;
  if (tensor.own.has_value()) out["own"] = {tensor.own->first, tensor.own->count};
  return out;
}

Json ToJson(const PlanStep& step) {
  Json in_place = Json::array();
  for (const auto& [written, read] : step.in_place) in_place.push_back({written.value, read.value});
  Json out = {{"id", step.id.value},
              {"layer", step.layer},
              {"type", step.type},
              {"phase", Name(step.phase)},
              {"reads", Ids(step.reads)},
              {"writes", Ids(step.writes)},
              {"accumulates", Ids(step.accumulates)},
              {"rerun_reads", Ids(step.rerun_reads)},
              {"in_place", in_place}};
  for (const auto& [tensor, slice] : step.slices)
    out["slices"].push_back({tensor.value, slice.first, slice.count});
  return out;
}

Json ToJson(const AllocAction& action) {
  return {{"op", "alloc"},
          {"tensor", action.tensor.value},
          {"offset", action.region.offset},
          {"bytes", action.region.bytes}};
}
Json ToJson(const FreeAction& action) { return {{"op", "free"}, {"tensor", action.tensor.value}}; }
Json ToJson(const OffloadAction& action) {
  Json out = {{"op", "offload"}, {"tensor", action.tensor.value}};
  if (action.pool != Pool::kHost) out["pool"] = Name(action.pool);
  out["offset"] = action.offset;
  return out;
}
Json ToJson(const PrefetchAction& action) {
  return {{"op", "prefetch"}, {"tensor", action.tensor.value}};
}
Json ToJson(const WaitAction& action) {
  return {{"op", "wait"}, {"stream", Name(action.stream)}, {"on", action.on}};
}
Json ToJson(const CollectiveAction& action) {
  return {{"op", "collective"}, {"step", action.step.value}};
}
Json ToJson(const ComputeAction& action) {
  Json out = {{"op", "compute"},
              {"step", action.step.value},
              {"recompute", action.recompute},
              {"engines", nullptr},
              {"workspace", nullptr}};
  for (const EngineUse& use : action.engines) {
    Json engine = {{"engine", use.engine}, {"batch", use.batch}};
    if (use.adds) engine["adds"] = true;
    out["engines"].push_back(std::move(engine));
  }
  if (action.workspace.has_value()) out["workspace"] = ToJson(*action.workspace);
  return out;
}

Json ToJson(const Action& action) {
  return std::visit([](const auto& a) { return ToJson(a); }, action);
}

template <typename T>
Json Array(const std::vector<T>& items) {
  Json out = Json::array();
  for (const T& item : items) out.push_back(ToJson(item));
  return out;
}

}  // namespace

std::string Plan::ToJson() const {
  Json json = {{"neap_plan", kPlanFormat},
               {"net", net},
               {"batch", batch},
               {"dtype", Name(dtype)},
               {"layout", Name(layout)},
               {"policy", policy},
               {"device", device},
               {"budget_bytes", budget_bytes},
               {"arena_bytes", arena_bytes},
               {"peak_bytes", peak_bytes},
               {"peak_activation_bytes", peak_activation_bytes},
               {"host_peak_bytes", host_peak_bytes},
               {"host_pool_bytes", host_pool_bytes},
               {"predicted_ms", predicted_ms}};
  if (sub_batches != 1) json["sub_batches"] = sub_batches;
  if (batch_norm_in_parts) json["batch_norm_in_parts"] = true;
  if (!device_kind.empty()) json["device_kind"] = device_kind;
  if (host_resident_bytes != 0) json["host_resident_bytes"] = host_resident_bytes;
  if (peer_peak_bytes != 0) json["peer_peak_bytes"] = peer_peak_bytes;
  if (peer_pool_bytes != 0) json["peer_pool_bytes"] = peer_pool_bytes;
  if (incoming_batch.has_value()) json["incoming_batch"] = neap::ToJson(*incoming_batch);
  json["tensors"] = Array(tensors);
  json["steps"] = Array(steps);
  json["actions"] = Array(actions);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace neap

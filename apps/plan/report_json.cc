#include "apps/plan/report_json.h"

#include <algorithm>
#include <utility>

#include "apps/plan/plan_report.h"
#include "neap/core/plan/plan_memory.h"
#include "neap/core/plan/tensor_history.h"

namespace neap::apps {
namespace {

Json Array() { return Json::array(); }

Json RoleNames() {
  Json names = Array();
  for (int role = 0; role < kRoleCount; ++role) names.push_back(Name(static_cast<Role>(role)));
  return names;
}

Json StepsJson(const Plan& plan) {
  Json steps = Array();
  for (const PlanStep& step : plan.steps) {
    steps.push_back({{"layer", step.layer}, {"phase", Name(step.phase)}});
  }
  return steps;
}

// One entry per compute action.
Json RunsJson(const Plan& plan, const Timeline& timeline) {
  Json runs = Array();
  const std::vector<StepMemory> memory = MemoryPerStep(plan);
  for (size_t i = 0; i < plan.actions.size(); ++i) {
    if (!std::holds_alternative<ComputeAction>(plan.actions[i])) continue;
    const StepMemory& run = memory[runs.size()];
    runs.push_back({{"step", run.step.value},
                    {"recompute", run.recompute},
                    {"serves", run.serves.value},
                    {"live_bytes", run.live_bytes},
                    {"live_activation_bytes", run.live_activation_bytes},
                    {"live_tensors", run.live_activations},
                    {"free_bytes", run.free_bytes},
                    {"workspace_bytes", run.workspace_bytes},
                    {"host_bytes", run.host_bytes},
                    {"peer_bytes", run.peer_bytes},
                    {"role_bytes", run.role_bytes},
                    {"engine", run.engine},
                    {"begin_us", timeline.actions[i].begin_us},
                    {"end_us", timeline.actions[i].end_us}});
  }
  return runs;
}

Json TransfersJson(const Plan& plan, const Timeline& timeline) {
  Json transfers = Array();
  const auto add = [&](const char* op, TensorId tensor, const ActionTime& time) {
    transfers.push_back({{"op", op},
                         {"tensor", tensor.value},
                         {"begin_us", time.begin_us},
                         {"end_us", time.end_us}});
  };
  for (size_t i = 0; i < plan.actions.size(); ++i) {
    if (const auto* out = std::get_if<OffloadAction>(&plan.actions[i])) {
      add("offload", out->tensor, timeline.actions[i]);
    } else if (const auto* in = std::get_if<PrefetchAction>(&plan.actions[i])) {
      add("prefetch", in->tensor, timeline.actions[i]);
    }
  }
  return transfers;
}

Json SumsJson(const Plan& plan, const Timeline& timeline) {
  Json sums = Array();
  for (size_t i = 0; i < plan.actions.size(); ++i) {
    const auto* const collective = std::get_if<CollectiveAction>(&plan.actions[i]);
    if (collective == nullptr) continue;
    sums.push_back({{"name", StepName(plan.steps[collective->step.index()])},
                    {"bytes", CollectiveBytes(plan, *collective)},
                    {"begin_us", timeline.actions[i].begin_us},
                    {"end_us", timeline.actions[i].end_us}});
  }
  return sums;
}

Json StallsJson(const Plan& plan, const Timeline& timeline) {
  Json stalls = Array();
  for (const Stall& stall : timeline.stalls) {
    Json tensor = nullptr;
    if (const auto* out = std::get_if<OffloadAction>(&plan.actions[stall.on])) {
      tensor = out->tensor.value;
    } else if (const auto* in = std::get_if<PrefetchAction>(&plan.actions[stall.on])) {
      tensor = in->tensor.value;
    }
    stalls.push_back(
        {{"begin_us", stall.begin_us}, {"end_us", stall.end_us}, {"tensor", std::move(tensor)}});
  }
  return stalls;
}

// The words by which the page filters tensors.
Json FilterNames(const TensorHistory& history) {
  Json names = Array();
  if (!history.trips.empty()) names.push_back("offloaded");
  if (!history.reruns.empty()) names.push_back("rebuilt");
  if (history.over) names.push_back("in place");
  if (history.trips.empty() && history.reruns.empty())
    names.push_back(history.is_freed ? "freed" : "kept");
  return names;
}

// By tensor; null for a tensor that has no alternatives.
std::vector<Json> AlternativesJson(const Plan& plan,
                                   const std::vector<TensorAlternatives>& alternatives) {
  std::vector<Json> json(plan.tensors.size());
  for (const TensorAlternatives& of : alternatives) {
    json[of.tensor.index()] = {{"move_us", OrNull(of.move_us)},
                               {"rebuild_us", OrNull(of.rebuild_us)}};
  }
  return json;
}

Json TensorJson(const Plan& plan, const TensorHistory& history, Json alternatives) {
  const PlanTensor& tensor = plan.tensors[history.tensor.index()];
  Json resident = Array();
  for (const Interval& interval : history.resident) {
    resident.push_back({interval.begin, interval.end});
  }
  return {{"name", tensor.name},
          {"role", Name(tensor.role)},
          {"shape", tensor.shape.ToString()},
          {"dtype", Name(tensor.dtype)},
          {"bytes", tensor.bytes},
          {"fates", FilterNames(history)},
          {"story", Explain(plan, history)},
          {"alternatives", std::move(alternatives)},
          {"resident", std::move(resident)},
          {"reruns", history.reruns.size()},
          {"absent_steps", history.absent_steps},
          {"away_steps", history.away_steps},
          {"transfer_us", history.transfer_us},
          {"stall_us", history.stall_us},
          {"recompute_us", history.recompute_us}};
}

// Memory per step. A recomputation counts towards the step that needs it.
Json LineJson(const Plan& plan, bool over_budget) {
  std::vector<int64_t> live_bytes(plan.steps.size());
  std::vector<int> live_tensors(plan.steps.size());
  for (const StepMemory& run : MemoryPerStep(plan)) {
    int64_t& bytes = live_bytes[run.serves.index()];
    int& tensors = live_tensors[run.serves.index()];
    bytes = std::max(bytes, run.live_activation_bytes);
    tensors = std::max(tensors, run.live_activations);
  }
  return {{"policy", plan.policy},
          {"over_budget", over_budget},
          {"live_bytes", live_bytes},
          {"live_tensors", live_tensors}};
}

}  // namespace

Json ReportJson(const Plan& plan, const Timeline& timeline, const ReportOptions& options) {
  Json header = PlanTotals(plan);
  header["accounting"] = options.accounting;
  Json tensors = Array();
  std::vector<Json> alternatives = AlternativesJson(plan, options.alternatives);
  for (const TensorHistory& history : TensorHistories(plan, timeline)) {
    tensors.push_back(TensorJson(plan, history, std::move(alternatives[history.tensor.index()])));
  }
  Json comparison = Array();
  for (const Plan& compared : options.compared) {
    const bool over = options.has_budget && compared.peak_bytes > plan.budget_bytes;
    comparison.push_back(LineJson(compared, over));
  }
  return {{"plan", std::move(header)},
          {"timeline", {{"total_us", timeline.total_us}, {"busy_us", timeline.busy_us}}},
          {"roles", RoleNames()},
          {"steps", StepsJson(plan)},
          {"runs", RunsJson(plan, timeline)},
          {"transfers", TransfersJson(plan, timeline)},
          {"sums", SumsJson(plan, timeline)},
          {"stalls", StallsJson(plan, timeline)},
          {"tensors", std::move(tensors)},
          {"comparison", std::move(comparison)},
          {"curve", options.curve}};
}

}  // namespace neap::apps

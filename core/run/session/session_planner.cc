#include "neap/core/run/session/session_planner.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "neap/core/base/region.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/without_throwing.h"
#include "neap/core/verifier/verifier.h"

namespace neap {
namespace {

// Of each persistent tensor in the arena: its region when an iteration begins, by name.
absl::flat_hash_map<std::string_view, Region> PersistentRegions(const Plan& plan) {
  absl::flat_hash_map<std::string_view, Region> regions;
  for (const Action& action : plan.actions) {
    const auto* const alloc = std::get_if<AllocAction>(&action);
    if (alloc == nullptr) continue;
    const PlanTensor& tensor = plan.tensors[alloc->tensor.index()];
    if (IsPersistent(tensor.role) && !tensor.on_host()) regions.emplace(tensor.name, alloc->region);
  }
  return regions;
}

std::string PlaceText(const std::optional<int64_t>& host_offset, int64_t arena_offset) {
  return host_offset.has_value() ? absl::StrCat("byte ", *host_offset, " of the host's pool")
                                 : absl::StrCat("byte ", arena_offset, " of the arena");
}

}  // namespace

absl::Status CheckSamePlaces(const Plan& plan, const Plan& other) {
  const auto regions = PersistentRegions(plan);
  const auto other_regions = PersistentRegions(other);
  const auto offset = [](const auto& by_name, const PlanTensor& tensor) {
    const auto found = by_name.find(tensor.name);
    return found == by_name.end() ? int64_t{-1} : found->second.offset;
  };
  absl::flat_hash_map<std::string_view, const PlanTensor*> tensors;
  for (const PlanTensor& tensor : other.tensors) tensors.emplace(tensor.name, &tensor);
  for (const PlanTensor& tensor : plan.tensors) {
    const auto found = tensors.find(tensor.name);
    if (!IsPersistent(tensor.role) || found == tensors.end()) continue;
    const PlanTensor& twin = *found->second;
    const int64_t here = offset(regions, tensor), there = offset(other_regions, twin);
    const bool is_same = tensor.host_offset == twin.host_offset && here == there;
    if (is_same && tensor.is_external == twin.is_external) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("two plans of one session must keep '", tensor.name,
                     "' at the same place, but it is at ", PlaceText(tensor.host_offset, here),
                     " in one and at ", PlaceText(twin.host_offset, there), " in the other"));
  }
  return absl::OkStatus();
}

int64_t PersistentEnd(const Plan& plan) {
  int64_t end = 0;
  for (const auto& [name, region] : PersistentRegions(plan)) end = std::max(end, region.end());
  return RoundUp(end, kBlockBytes);
}

SessionPlanner::SessionPlanner(std::shared_ptr<const Planner> planner, Device& device)
    : planner_(std::move(planner)), device_(device.description()), catalog_(device.backend()) {}

PlanRequest SessionPlanner::RequestFor(int64_t budget_bytes) const {
  return {.budget_bytes = budget_bytes, .strict = device_.kind == "cpu"};
}

absl::StatusOr<ChosenProgram> SessionPlanner::Choose(LowerWith lower, int64_t budget_bytes) const {
  return WithoutThrowing("the planner", [&] {
    return planner_->Choose(lower, RequestFor(budget_bytes), device_, catalog_);
  });
}

absl::StatusOr<int64_t> SessionPlanner::MinimumBudget(const Program& program) const {
  return WithoutThrowing("the planner", [&] {
    return planner_->MinimumBudget(program, RequestFor(kUnlimited), device_, catalog_);
  });
}

absl::StatusOr<PlanResult> SessionPlanner::Plan(const Program& program, int64_t budget_bytes) {
  return FindOrMake(program, budget_bytes, [&] {
    return WithoutThrowing("the planner", [&] {
      return planner_->Plan(program, RequestFor(budget_bytes), device_, catalog_);
    });
  });
}

absl::Status SessionPlanner::Keep(const Program& program, int64_t budget_bytes,
                                  PlanResult planned) {
  return FindOrMake(program, budget_bytes, [&] { return std::move(planned); }).status();
}

absl::StatusOr<PlanResult> SessionPlanner::FindOrMake(const Program& program, int64_t budget_bytes,
                                                      PlanCache::Make make) {
  const auto make_verified = [&]() -> absl::StatusOr<PlanResult> {
    ASSIGN_OR_RETURN(PlanResult result, make());
    RETURN_IF_ERROR(Verify(result.plan));
    RETURN_IF_ERROR(MatchesProgram(result.plan, program));
    return result;
  };
  return cache_.FindOrMake({program, planner_, RequestFor(budget_bytes), device_}, make_verified);
}

absl::StatusOr<SessionPlans> SessionPlanner::PlanAll(const SessionPrograms& programs,
                                                     int64_t budget_bytes) {
  std::vector<const Program*> all;
  for (const Program& program : programs.training) all.push_back(&program);
  if (programs.inference.has_value()) all.push_back(&*programs.inference);
  std::vector<absl::StatusOr<PlanResult>> results;
  for (const Program* program : all) results.push_back(Plan(*program, budget_bytes));
  RETURN_IF_ERROR(MostDemanding(all, results));

  int64_t minimum = 0;
  for (const absl::StatusOr<PlanResult>& result : results) {
    RETURN_IF_ERROR(CheckSamePlaces(results.front()->plan, result->plan));
    minimum = std::max(minimum, result->stats.minimum_budget_bytes);
  }
  SessionPlans plans;
  if (programs.inference.has_value()) {
    plans.inference = *std::move(results.back());
    results.pop_back();
  }
  for (absl::StatusOr<PlanResult>& result : results) {
    result->stats.minimum_budget_bytes = minimum;
    plans.training.push_back(*std::move(result));
  }
  return plans;
}

// The error to report: one other than that of a budget that is too small, or else that of the
// program whose smallest budget is the largest. OK if there is none.
absl::Status SessionPlanner::MostDemanding(
    const std::vector<const Program*>& programs,
    const std::vector<absl::StatusOr<PlanResult>>& results) const {
  std::vector<size_t> refused;
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].ok()) continue;
    if (!absl::IsResourceExhausted(results[i].status())) return results[i].status();
    refused.push_back(i);
  }
  if (refused.size() < 2) return refused.empty() ? absl::OkStatus() : results[refused[0]].status();
  size_t most = refused[0];
  int64_t largest = -1;
  for (size_t i : refused) {
    ASSIGN_OR_RETURN(const int64_t minimum, MinimumBudget(*programs[i]));
    if (minimum > largest) {
      largest = minimum;
      most = i;
    }
  }
  return results[most].status();
}

}  // namespace neap

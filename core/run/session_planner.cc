#include "neap/core/run/session_planner.h"

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
    if (tensor.host_offset == twin.host_offset && here == there) continue;
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
  if (programs.inference.has_value())
    return PlanBoth(programs.training, *programs.inference, budget_bytes);
  ASSIGN_OR_RETURN(PlanResult planned, Plan(programs.training, budget_bytes));
  return SessionPlans{.training = std::move(planned), .inference = {}};
}

absl::StatusOr<SessionPlans> SessionPlanner::PlanBoth(const Program& training,
                                                      const Program& inference,
                                                      int64_t budget_bytes) {
  absl::StatusOr<PlanResult> first = Plan(training, budget_bytes);
  absl::StatusOr<PlanResult> second = Plan(inference, budget_bytes);
  if (first.ok() && second.ok()) {
    RETURN_IF_ERROR(CheckSamePlaces(first->plan, second->plan));
    int64_t& minimum = first->stats.minimum_budget_bytes;
    minimum = std::max(minimum, second->stats.minimum_budget_bytes);
    return SessionPlans{*std::move(first), *std::move(second)};
  }
  if (!absl::IsResourceExhausted(first.status()) || !absl::IsResourceExhausted(second.status())) {
    return first.ok() ? second.status() : first.status();
  }
  ASSIGN_OR_RETURN(const int64_t of_training, MinimumBudget(training));
  ASSIGN_OR_RETURN(const int64_t of_inference, MinimumBudget(inference));
  return of_training >= of_inference ? first.status() : second.status();
}

}  // namespace neap

#include "neap/memory/planner.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "neap/core/lifetimes.h"
#include "neap/core/status_macros.h"
#include "neap/memory/heap.h"
#include "neap/memory/in_place.h"
#include "neap/memory/offline_allocator.h"
#include "neap/memory/placement.h"
#include "neap/memory/plan_walk.h"
#include "neap/memory/policy.h"

namespace neap {
namespace {

constexpr std::array<std::string_view, 3> kPlacements = {"first-fit", "exact-fit-first-fit",
                                                         "offline"};

double MillisecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

// Engines that a plan may name, per step: deterministic ones, the library's recommendation first.
absl::StatusOr<std::vector<StepEngines>> ListEngines(const Program& program, bool strict,
                                                     EngineCatalog& catalog) {
  std::vector<StepEngines> all(program.steps.size());
  if (program.options.accounting == Accounting::kPaper) return all;
  for (const Step& step : program.steps) {
    StepEngines& step_engines = all[step.id.index()];
    step_engines.scratch_bytes = program.AccumulationScratchBytes(step);
    absl::StatusOr<std::vector<Engine>> engines = catalog.Engines(program.Signature(step));
    if (!engines.ok()) {
      return absl::Status(engines.status().code(),
                          absl::StrCat(program.StepName(step), ": ", engines.status().message()));
    }
    step_engines.only_one = engines->size() == 1;
    for (Engine& engine : *engines) {
      if (engine.deterministic) step_engines.engines.push_back(std::move(engine));
    }
    if (step_engines.engines.empty()) {
      return absl::FailedPreconditionError(
          absl::StrCat(program.StepName(step), ": the library has no deterministic engine"));
    }
    if (strict) KeepStrictEngine(step_engines.engines);
  }
  return all;
}

// The blocks that an offline placement has to place: one for each buffer, one for each workspace
// that must be.
struct BlockList {
  std::vector<AllocationId> ids;
  std::vector<PlacementBlock> blocks;
};
BlockList TransientBlocks(const Program& program, const Schedule& schedule,
                          const std::vector<StepEngines>& engines) {
  BlockList list;
  const auto add = [&list](AllocationId id, int64_t bytes, int begin, int end) {
    list.ids.push_back(id);
    list.blocks.push_back({.bytes = RoundUp(bytes, kBlockBytes), .begin = begin, .end = end});
  };
  for (const Tensor& tensor : program.tensors) {
    if (IsPersistent(tensor.role) || schedule.replaces[tensor.id.index()].has_value()) continue;
    const Lifetime& buffer = schedule.buffers[tensor.id.index()];
    if (buffer.begin < buffer.end)
      add(tensor.id.value, tensor.spec.size_bytes(), buffer.begin, buffer.end);
  }
  for (const Step& step : program.steps) {
    const int64_t bytes = SmallestWorkspace(engines[step.id.index()]);
    if (bytes > 0) add(WorkspaceId(step.id), bytes, step.id.value, step.id.value + 1);
  }
  return list;
}

class Planner {
 public:
  Planner(const Program& program, const PlannerOptions& options, const DeviceDescription& device)
      : program_(program), options_(options), device_(device) {}

  absl::StatusOr<PlanResult> Make(EngineCatalog& catalog) {
    ASSIGN_OR_RETURN(const Policy policy, FindPolicy(options_.policy));
    if (std::find(kPlacements.begin(), kPlacements.end(), options_.placement) ==
        kPlacements.end()) {
      return absl::NotFoundError(absl::StrFormat("unknown placement '%s'; known: %s, %s, %s",
                                                 options_.placement, kPlacements[0], kPlacements[1],
                                                 kPlacements[2]));
    }
    const auto start = std::chrono::steady_clock::now();
    ASSIGN_OR_RETURN(engines_, ListEngines(program_, options_.strict, catalog));
    PlanResult result;
    result.stats.engines_ms = MillisecondsSince(start);

    const auto walk_start = std::chrono::steady_clock::now();
    schedule_ = MakeSchedule(
        program_, policy, options_.in_place && program_.options.accounting == Accounting::kExact);
    PlaceBlocks(result.stats);
    RETURN_IF_ERROR(CheckBudget(result.stats));
    ASSIGN_OR_RETURN(WalkResult walk, Walk(options_.budget_bytes, WorkspaceChoice::kFirstThatFits));
    result.plan = Finish(std::move(walk), policy);
    for (const auto& replaced : schedule_.replaces)
      result.stats.in_place_tensors += replaced.has_value() ? 1 : 0;
    result.stats.planning_ms = MillisecondsSince(walk_start);
    return result;
  }

 private:
  void PlaceBlocks(PlanningStats& stats) {
    const BlockList list = TransientBlocks(program_, schedule_, engines_);
    stats.placement_lower_bound = schedule_.persistent_bytes + PlacementLowerBound(list.blocks);
    if (options_.placement != "offline") return;
    const PlacementResult placed = PlaceOffline(list.blocks);
    for (size_t i = 0; i < list.ids.size(); ++i) offsets_.emplace(list.ids[i], placed.offsets[i]);
  }

  absl::StatusOr<WalkResult> Walk(int64_t budget_bytes, WorkspaceChoice choice) const {
    const int64_t capacity = budget_bytes - schedule_.persistent_bytes;
    if (options_.placement == "offline") {
      OfflineAllocator allocator(capacity, offsets_);
      return WalkProgram(program_, schedule_, engines_, choice, allocator);
    }
    Heap heap(capacity,
              options_.placement == "first-fit" ? Fit::kFirstFit : Fit::kExactFitFirstFit);
    return WalkProgram(program_, schedule_, engines_, choice, heap);
  }

  // The smallest feasible budget is what the walk takes when bytes are no object but workspaces are
  // as small as can be.
  absl::Status CheckBudget(PlanningStats& stats) const {
    ASSIGN_OR_RETURN(const WalkResult smallest, Walk(kUnlimited, WorkspaceChoice::kSmallest));
    stats.minimum_budget_bytes = smallest.peak_bytes;
    if (options_.budget_bytes >= smallest.peak_bytes) return absl::OkStatus();
    const std::string step = program_.StepName(program_.steps[smallest.busiest_step.index()]);
    return absl::ResourceExhaustedError(absl::StrCat(
        "a budget of ", options_.budget_bytes, " bytes (", FormatBytes(options_.budget_bytes),
        ") is too small for ", program_.net.name, " at batch ", program_.net.batch, " with policy ",
        options_.policy, ": step ", smallest.busiest_step.value + 1, " (", step, ") needs ",
        smallest.busiest_bytes, " bytes; the smallest feasible budget is ", smallest.peak_bytes,
        " bytes (", FormatBytes(smallest.peak_bytes), ")"));
  }

  Plan Finish(WalkResult walk, const Policy& policy) const {
    Plan plan = DescribeProgram(program_, device_);
    plan.policy = policy.name;
    plan.budget_bytes =
        options_.budget_bytes == kUnlimited ? walk.peak_bytes : options_.budget_bytes;
    plan.arena_bytes = walk.peak_bytes;
    plan.peak_bytes = walk.peak_bytes;
    plan.actions = std::move(walk.actions);
    for (const StepMemory& memory : MemoryPerStep(plan)) {
      plan.peak_activation_bytes =
          std::max(plan.peak_activation_bytes, memory.live_activation_bytes);
    }
    return plan;
  }

  const Program& program_;
  const PlannerOptions& options_;
  const DeviceDescription& device_;
  std::vector<StepEngines> engines_;
  Schedule schedule_;
  absl::flat_hash_map<AllocationId, int64_t> offsets_;  // offline placement only
};

}  // namespace

std::vector<std::string_view> PlacementNames() { return {kPlacements.begin(), kPlacements.end()}; }

absl::StatusOr<PlanResult> MakePlan(const Program& program, const PlannerOptions& options,
                                    const DeviceDescription& device, EngineCatalog& catalog) {
  return Planner(program, options, device).Make(catalog);
}

}  // namespace neap

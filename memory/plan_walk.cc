#include "neap/memory/plan_walk.h"

#include <algorithm>

#include "neap/core/cost_model.h"
#include "neap/core/status_macros.h"
#include "neap/core/units.h"
#include "neap/memory/planner.h"

namespace neap {
namespace {

const Engine* SmallestEngine(const StepEngines& step) {
  const auto smallest = std::min_element(
      step.engines.begin(), step.engines.end(),
      [](const Engine& a, const Engine& b) { return a.workspace_bytes < b.workspace_bytes; });
  return smallest == step.engines.end() ? nullptr : &*smallest;
}

const Engine* FirstThatFits(const StepEngines& step, int64_t free_bytes) {
  for (const Engine& engine : step.engines) {
    if (engine.workspace_bytes + step.scratch_bytes <= free_bytes) return &engine;
  }
  return SmallestEngine(step);
}

class Walker {
 public:
  Walker(const Program& program, const Schedule& schedule, Allocator& allocator)
      : program_(program),
        schedule_(schedule),
        allocator_(allocator),
        regions_(program.tensors.size()),
        dying_(program.steps.size() + 1) {
    for (const Tensor& tensor : program.tensors) {
      const Lifetime& residency = schedule.residency[tensor.id.index()];
      if (IsPersistent(tensor.role) || residency.begin == residency.end) continue;
      dying_[static_cast<size_t>(residency.end)].push_back(tensor.id);
    }
  }

  absl::StatusOr<WalkResult> Walk(const std::vector<StepEngines>& engines, WorkspaceChoice choice) {
    RETURN_IF_ERROR(PlaceGiven());
    for (const Step& step : program_.steps) {
      for (const Use& use : step.writes) {
        if (IsPersistent(program_.tensor(use.tensor).role))
          continue;  // has its place: the loss's metrics
        RETURN_IF_ERROR(Place(use.tensor));
      }
      RETURN_IF_ERROR(Compute(step, engines[step.id.index()], choice));
      for (TensorId dead : dying_[step.id.index() + 1]) RETURN_IF_ERROR(Release(dead));
    }
    return std::move(result_);
  }

 private:
  absl::Status PlaceGiven() {
    int64_t offset = 0;
    for (const Tensor& tensor : program_.tensors) {
      if (!IsPersistent(tensor.role)) continue;
      const Region region = {offset, RoundUp(tensor.spec.size_bytes(), kBlockBytes)};
      Record(tensor.id, region);
      offset = region.end();
    }
    live_bytes_ = schedule_.persistent_bytes;
    for (const Tensor& tensor : program_.tensors) {
      const Lifetime& residency = schedule_.residency[tensor.id.index()];
      if (IsPersistent(tensor.role) || !IsGiven(tensor.role) || residency.begin == residency.end)
        continue;
      RETURN_IF_ERROR(Place(tensor.id));
    }
    return absl::OkStatus();
  }

  void Record(TensorId tensor, Region region) {
    regions_[tensor.index()] = region;
    Raise(region);
    result_.actions.emplace_back(AllocAction{tensor, region});
  }
  void Raise(const Region& region) {
    result_.peak_bytes = std::max(result_.peak_bytes, region.end());
  }

  absl::StatusOr<Region> Take(AllocationId id, int64_t bytes) {
    ASSIGN_OR_RETURN(Region region, allocator_.Allocate(id, bytes));
    region.offset += schedule_.persistent_bytes;
    return region;
  }

  absl::Status Place(TensorId tensor) {
    if (const std::optional<TensorId> replaced = schedule_.replaces[tensor.index()];
        replaced.has_value()) {
      Record(tensor, regions_[replaced->index()]);
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const Region region,
                     Take(tensor.value, program_.tensor(tensor).spec.size_bytes()));
    Record(tensor, region);
    live_bytes_ += region.bytes;
    return absl::OkStatus();
  }

  absl::Status Compute(const Step& step, const StepEngines& engines, WorkspaceChoice choice) {
    ComputeAction action = {.step = step.id};
    const Engine* engine = choice == WorkspaceChoice::kSmallest
                               ? SmallestEngine(engines)
                               : FirstThatFits(engines, allocator_.LargestFreeBytes());
    const int64_t bytes = engines.scratch_bytes + (engine == nullptr ? 0 : engine->workspace_bytes);
    if (engine != nullptr && !engines.only_one)
      action.engines.push_back({engine->id, program_.net.batch});
    if (bytes > 0) {
      ASSIGN_OR_RETURN(action.workspace, Take(WorkspaceId(step.id), bytes));
      Raise(*action.workspace);
      RETURN_IF_ERROR(allocator_.Free(WorkspaceId(step.id)));
    }
    const int64_t used = live_bytes_ + RoundUp(bytes, kBlockBytes);
    if (used > result_.busiest_bytes) {
      result_.busiest_bytes = used;
      result_.busiest_step = step.id;
    }
    result_.actions.emplace_back(std::move(action));
    return absl::OkStatus();
  }

  // A tensor that was overwritten in place leaves its bytes to the one that did.
  absl::Status Release(TensorId tensor) {
    result_.actions.emplace_back(FreeAction{tensor});
    if (schedule_.overwritten[tensor.index()]) return absl::OkStatus();
    live_bytes_ -= regions_[tensor.index()].bytes;
    return allocator_.Free(schedule_.buffer_of[tensor.index()].value);
  }

  const Program& program_;
  const Schedule& schedule_;
  Allocator& allocator_;
  WalkResult result_;
  int64_t live_bytes_ = 0;                    // without workspaces
  std::vector<Region> regions_;               // by TensorId
  std::vector<std::vector<TensorId>> dying_;  // by the step before which they are gone
};

std::vector<TensorId> Ids(const std::vector<Use>& uses) {
  std::vector<TensorId> ids;
  ids.reserve(uses.size());
  for (const Use& use : uses) ids.push_back(use.tensor);
  return ids;
}

}  // namespace

Schedule MakeSchedule(const Program& program, const Policy& policy, bool in_place) {
  std::vector<Lifetime> lifetimes = Lifetimes(program);
  Schedule schedule;
  schedule.replaces =
      in_place ? ProveInPlace(program, lifetimes) : Replacements(program.tensors.size());
  schedule.residency = policy.residency(program, std::move(lifetimes));
  schedule.overwritten.resize(program.tensors.size(), false);
  for (const Tensor& tensor : program.tensors) {
    const size_t i = tensor.id.index();
    if (IsPersistent(tensor.role)) {
      schedule.persistent_bytes += RoundUp(tensor.spec.size_bytes(), kBlockBytes);
    }
    // What is overwritten is gone, also where the policy would have kept it.
    if (const std::optional<TensorId> old = schedule.replaces[i]; old.has_value()) {
      schedule.residency[old->index()].end = schedule.residency[i].begin + 1;
      schedule.overwritten[old->index()] = true;
    }
  }
  schedule.buffers = schedule.residency;
  for (const Tensor& tensor : program.tensors) schedule.buffer_of.push_back(tensor.id);
  for (const Step& step : program.steps) {  // in order of definition: chains unfold front to back
    for (const Use& use : step.writes) {
      const std::optional<TensorId> old = schedule.replaces[use.tensor.index()];
      if (!old.has_value()) continue;
      const TensorId first = schedule.buffer_of[old->index()];
      schedule.buffer_of[use.tensor.index()] = first;
      schedule.buffers[first.index()].end = schedule.residency[use.tensor.index()].end;
    }
  }
  return schedule;
}

void KeepStrictEngine(std::vector<Engine>& engines) {
  const auto fixed = std::find_if(engines.begin(), engines.end(), [](const Engine& engine) {
    return engine.workspace_bytes <= kStrictWorkspaceBytes;
  });
  const Engine keep = fixed == engines.end() ? *SmallestEngine({.engines = engines}) : *fixed;
  engines = {keep};
}

int64_t SmallestWorkspace(const StepEngines& engines) {
  const Engine* smallest = SmallestEngine(engines);
  return engines.scratch_bytes + (smallest == nullptr ? 0 : smallest->workspace_bytes);
}

absl::StatusOr<WalkResult> WalkProgram(const Program& program, const Schedule& schedule,
                                       const std::vector<StepEngines>& engines,
                                       WorkspaceChoice choice, Allocator& allocator) {
  return Walker(program, schedule, allocator).Walk(engines, choice);
}

Plan DescribeProgram(const Program& program, const DeviceDescription& device) {
  Plan plan = {.net = program.net.name,
               .batch = program.net.batch,
               .dtype = program.net.dtype,
               .layout = program.net.layout,
               .device = device.name};
  for (const Tensor& tensor : program.tensors) {
    plan.tensors.push_back({tensor.id, tensor.name, tensor.role, tensor.spec.shape,
                            tensor.spec.dtype, tensor.spec.size_bytes()});
  }
  for (const Step& step : program.steps) {
    plan.steps.push_back({step.id, program.layers[step.layer.index()].name,
                          std::string(program.StepType(step)), step.phase, Ids(step.reads),
                          Ids(step.writes), Ids(step.accumulates), Ids(step.rerun_reads),
                          step.in_place});
    plan.predicted_ms += 1e3 * PredictSeconds(program, step, device);
  }
  return plan;
}

}  // namespace neap

// MatchesProgram: whether a plan is one of this program.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_format.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/program/results.h"
#include "neap/core/verifier/site.h"
#include "neap/core/verifier/verifier.h"

namespace neap {
namespace {

bool Same(const std::vector<TensorId>& ids, const std::vector<Use>& uses) {
  return std::equal(ids.begin(), ids.end(), uses.begin(), uses.end(),
                    [](TensorId id, const Use& use) { return id == use.tensor; });
}

std::optional<Slice> Own(const Program& program, const Tensor& tensor) {
  if (tensor.shards.empty() || program.options.mode == Mode::kInference) return std::nullopt;
  return program.OwnShard(tensor);
}

// Whether the plan has the slices of the step's uses, in the order of the uses.
bool SameSlices(const PlanStep& planned, const Step& step) {
  std::vector<std::pair<TensorId, Slice>> slices;
  for (const std::vector<Use>* uses : {&step.reads, &step.writes, &step.accumulates}) {
    for (const Use& use : *uses) {
      if (use.slice.has_value()) slices.emplace_back(use.tensor, *use.slice);
    }
  }
  return planned.slices == slices;
}

Home PlannedHome(const PlanTensor& planned) {
  if (planned.is_external) return Home::kExternal;
  return planned.on_host() ? Home::kHost : Home::kArena;
}

bool Same(const PlanTensor& planned, const Program& program, const Tensor& tensor) {
  return PlannedHome(planned) == tensor.home && planned.own == Own(program, tensor) &&
         planned.id == tensor.id && planned.name == tensor.name && planned.role == tensor.role &&
         planned.shape == tensor.spec.shape && planned.dtype == tensor.spec.dtype &&
         planned.bytes == tensor.spec.size_bytes();
}

bool Same(const PlanStep& planned, const Program& program, const Step& step) {
  return planned.id == step.id && planned.layer == program.layers[step.layer.index()].name &&
         planned.type == program.StepType(step) && planned.phase == step.phase &&
         Same(planned.reads, step.reads) && Same(planned.writes, step.writes) &&
         Same(planned.accumulates, step.accumulates) &&
         Same(planned.rerun_reads, step.rerun_reads) && planned.in_place == step.in_place &&
         SameSlices(planned, step);
}

std::string Describe(Role role, const Shape& shape, DType dtype) {
  return absl::StrFormat("%s %s %s", Name(role), shape.ToString(), Name(dtype));
}

// How two tensors differ: in their names or, if those are equal, in the other fields.
std::string Difference(const PlanTensor& planned, const Tensor& tensor) {
  if (planned.name != tensor.name) {
    return absl::StrFormat("its tensor %d, '%s', is not the program's, '%s'", tensor.id.value,
                           planned.name, tensor.name);
  }
  if (PlannedHome(planned) != tensor.home) {
    return absl::StrFormat("the home of its tensor %d, '%s', is %s, but the program's is %s",
                           tensor.id.value, planned.name, std::string(Name(PlannedHome(planned))),
                           std::string(Name(tensor.home)));
  }
  const bool is_sharded = planned.own.has_value() || !tensor.shards.empty();
  if (is_sharded && planned.role == tensor.role && planned.shape == tensor.spec.shape &&
      planned.dtype == tensor.spec.dtype) {
    return absl::StrFormat("its tensor %d, '%s', is of another rank of a sharded optimizer",
                           tensor.id.value, planned.name);
  }
  return absl::StrFormat("its tensor %d, '%s', is %s, but the program's is %s", tensor.id.value,
                         planned.name, Describe(planned.role, planned.shape, planned.dtype),
                         Describe(tensor.role, tensor.spec.shape, tensor.spec.dtype));
}

absl::Status CheckNet(const Plan& plan, const Program& program, const verifier::Site& site) {
  if (plan.batch != program.net.batch) {
    return site.Fault(
        PlanFault::kProgram,
        absl::StrFormat("its batch is %d, but the program's is %d", plan.batch, program.net.batch));
  }
  if (plan.sub_batches != program.options.sub_batches) {
    return site.Fault(PlanFault::kProgram,
                      absl::StrFormat("it has %d sub-batches, but the program has %d",
                                      plan.sub_batches, program.options.sub_batches));
  }
  if (plan.batch_norm_in_parts != program.options.batch_norm_in_parts) {
    return site.Fault(PlanFault::kProgram,
                      absl::StrFormat("its batch norms have the statistics of %s, but not the "
                                      "program's",
                                      plan.batch_norm_in_parts ? "each part" : "the whole batch"));
  }
  if (plan.dtype != program.net.dtype || plan.layout != program.net.layout) {
    return site.Fault(PlanFault::kProgram, "its dtype or layout is not the program's");
  }
  if (plan.tensors.size() != program.tensors.size() || plan.steps.size() != program.steps.size()) {
    return site.Fault(
        PlanFault::kProgram,
        absl::StrFormat("it has %d tensors and %d steps, but the program has %d and %d",
                        plan.tensors.size(), plan.steps.size(), program.tensors.size(),
                        program.steps.size()));
  }
  return absl::OkStatus();
}

bool Overlap(const Region& a, const Region& b) { return a.offset < b.end() && b.offset < a.end(); }

// Results are read when an iteration has ended, so nothing may take their bytes after the step that
// computes them.
absl::Status CheckResult(const Plan& plan, const Tensor& result, const verifier::Site& site) {
  const bool is_given = IsGiven(result.role);
  std::optional<Region> place;
  bool computed = false, on_host = false;
  for (const Action& action : plan.actions) {
    if (const auto* const alloc = std::get_if<AllocAction>(&action)) {
      if (alloc->tensor == result.id) {
        place = alloc->region;
        computed = is_given;
      } else if (place.has_value() && Overlap(*place, alloc->region)) {
        computed = false;
      }
    } else if (const auto* const offload = std::get_if<OffloadAction>(&action)) {
      if (offload->tensor == result.id) on_host = computed;
    } else if (const auto* const prefetch = std::get_if<PrefetchAction>(&action)) {
      if (prefetch->tensor == result.id) computed = on_host;
    } else if (const auto* const compute = std::get_if<ComputeAction>(&action)) {
      const std::vector<TensorId> writes = RunWrites(plan, *compute);
      if (std::find(writes.begin(), writes.end(), result.id) != writes.end()) {
        computed = true;
      } else if (place.has_value() && compute->workspace.has_value() &&
                 Overlap(*place, *compute->workspace)) {
        computed = false;
      }
    }
  }
  if (computed) return absl::OkStatus();
  return site.Fault(PlanFault::kProgram,
                    absl::StrFormat("the result '%s' is overwritten before the iteration has ended",
                                    result.name));
}

}  // namespace

absl::Status MatchesProgram(const Plan& plan, const Program& program) {
  const verifier::Site site(plan);
  RETURN_IF_ERROR(CheckNet(plan, program, site));
  for (size_t i = 0; i < plan.tensors.size(); ++i) {
    const Tensor& tensor = program.tensors[i];
    if (Same(plan.tensors[i], program, tensor)) continue;
    return site.Fault(PlanFault::kProgram, Difference(plan.tensors[i], tensor));
  }
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const Step& step = program.steps[i];
    if (Same(plan.steps[i], program, step)) continue;
    return site.Fault(
        PlanFault::kProgram,
        absl::StrFormat("its step %d, '%s %s', is not the program's, '%s'", i, plan.steps[i].layer,
                        std::string(Name(plan.steps[i].phase)), program.StepName(step)));
  }
  for (TensorId result : KeptResults(program))
    RETURN_IF_ERROR(CheckResult(plan, program.tensor(result), site));
  return absl::OkStatus();
}

}  // namespace neap

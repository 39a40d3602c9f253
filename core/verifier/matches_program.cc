// MatchesProgram: whether a plan is one of this program.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
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

// When the bytes of the arena were last taken: the number of an action, or -1.
class LastTaken {
 public:
  void Take(const Region& region, int64_t action) {
    if (region.bytes <= 0) return;
    const int64_t behind = std::prev(taken_.upper_bound(region.end()))->second;
    taken_.erase(taken_.lower_bound(region.offset), taken_.upper_bound(region.end()));
    taken_[region.offset] = action;
    taken_[region.end()] = behind;
  }
  bool IsTakenAfter(const Region& region, int64_t action) const {
    auto bytes = std::prev(taken_.upper_bound(region.offset));
    for (; bytes != taken_.end() && bytes->first < region.end(); ++bytes) {
      if (bytes->second > action) return true;
    }
    return false;
  }

 private:
  // By the first of the bytes that it is true of; the next one's follow them.
  std::map<int64_t, int64_t> taken_ = {{std::numeric_limits<int64_t>::min(), -1}};
};

// Where results are as the actions run. They are read when an iteration has ended, so nothing may
// take their bytes after the step that computes them.
class PlannedResults {
 public:
  PlannedResults(const Plan& plan, const std::vector<TensorId>& results) : plan_(plan) {
    for (const TensorId result : results) results_[result] = {};
    for (const Action& action : plan.actions) {
      std::visit([this](const auto& one) { Follow(one); }, action);
      ++action_;
    }
  }

  // Whether it is there when all actions have run.
  bool IsKept(TensorId result) const { return IsThere(results_.at(result)); }

 private:
  struct Result {
    std::optional<Region> place = std::nullopt;
    std::optional<int64_t> since = std::nullopt;  // the action that brought the values, if any did
    bool on_host = false;
  };

  Result* Find(TensorId tensor) {
    const auto found = results_.find(tensor);
    return found == results_.end() ? nullptr : &found->second;
  }
  bool IsThere(const Result& result) const {
    if (!result.since.has_value() || !result.place.has_value()) return result.since.has_value();
    return !taken_.IsTakenAfter(*result.place, *result.since);
  }

  void Follow(const AllocAction& alloc) {
    taken_.Take(alloc.region, action_);
    Result* const result = Find(alloc.tensor);
    if (result == nullptr) return;
    result->place = alloc.region;
    result->since.reset();
    if (IsGiven(plan_.tensors[alloc.tensor.index()].role)) result->since = action_;
  }
  void Follow(const OffloadAction& offload) {
    if (Result* const result = Find(offload.tensor)) result->on_host = IsThere(*result);
  }
  void Follow(const PrefetchAction& prefetch) {
    Result* const result = Find(prefetch.tensor);
    if (result == nullptr) return;
    result->since.reset();
    if (result->on_host) result->since = action_;
  }
  void Follow(const ComputeAction& compute) {
    if (compute.workspace.has_value()) taken_.Take(*compute.workspace, action_);
    for (const TensorId written : RunWrites(plan_, compute)) {
      if (Result* const result = Find(written)) result->since = action_;
    }
  }
  template <typename Other>
  void Follow(const Other& /*action*/) {}

  const Plan& plan_;
  absl::flat_hash_map<TensorId, Result> results_;
  LastTaken taken_;
  int64_t action_ = 0;  // the number of the current action
};

absl::Status CheckResults(const Plan& plan, const Program& program, const verifier::Site& site) {
  const std::vector<TensorId> results = KeptResults(program);
  if (results.empty()) return absl::OkStatus();
  const PlannedResults planned(plan, results);
  for (const TensorId result : results) {
    if (planned.IsKept(result)) continue;
    return site.Fault(
        PlanFault::kProgram,
        absl::StrFormat("the result '%s' is overwritten before the iteration has ended",
                        program.tensor(result).name));
  }
  return absl::OkStatus();
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
  return CheckResults(plan, program, site);
}

}  // namespace neap

// Checks of a plan's header, tensors and steps, which must hold for any actions.
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/verifier/site.h"

namespace neap::verifier {
namespace {

using Ids = std::vector<TensorId>;

absl::Status CheckHeader(const Plan& plan, const Site& site) {
  if (plan.batch < 1) {
    return site.Fault(PlanFault::kHeader, absl::StrFormat("its batch is %d", plan.batch));
  }
  RETURN_IF_ERROR(CheckParts(plan, site));
  for (int64_t bytes : {plan.budget_bytes, plan.arena_bytes, plan.peak_bytes,
                        plan.peak_activation_bytes, plan.host_peak_bytes, plan.peer_peak_bytes,
                        plan.host_pool_bytes, plan.peer_pool_bytes, plan.host_resident_bytes}) {
    if (bytes >= 0) continue;
    return site.Fault(PlanFault::kHeader, absl::StrFormat("it has a total of %d bytes", bytes));
  }
  if (plan.host_resident_bytes > plan.host_pool_bytes) {
    return site.Fault(PlanFault::kHeader,
                      absl::StrFormat("%d bytes of residents in a host's pool of %d bytes",
                                      plan.host_resident_bytes, plan.host_pool_bytes));
  }
  if (!std::isfinite(plan.predicted_ms) || plan.predicted_ms < 0) {
    return site.Fault(PlanFault::kHeader, "its predicted time is negative or not finite");
  }
  if (plan.arena_bytes > plan.budget_bytes) {
    return site.Fault(PlanFault::kOverBudget,
                      absl::StrFormat("an arena of %d bytes exceeds the budget of %d bytes",
                                      plan.arena_bytes, plan.budget_bytes));
  }
  return absl::OkStatus();
}

// Shape x dtype; nullopt if that overflows or an extent is not positive.
std::optional<int64_t> SizeBytes(const PlanTensor& tensor) {
  int64_t bytes = SizeOf(tensor.dtype);
  for (int64_t extent : tensor.shape.dims()) {
    if (extent < 1 || extent > std::numeric_limits<int64_t>::max() / bytes) return std::nullopt;
    bytes *= extent;
  }
  return bytes;
}

bool IsIn(const Slice& slice, const PlanTensor& tensor) {
  return slice.first >= 0 && slice.count >= 0 &&
         slice.first <= tensor.shape.elements() - slice.count;
}

absl::Status CheckOwn(const PlanTensor& tensor, const Site& site) {
  if (!tensor.own.has_value()) return absl::OkStatus();
  const bool may_own = tensor.role == Role::kParam || tensor.role == Role::kParamGrad;
  if (may_own && IsIn(*tensor.own, tensor)) return absl::OkStatus();
  return site.Fault(PlanFault::kTensor,
                    absl::StrCat(site.Describe(tensor.id), " has a slice of ", tensor.own->count,
                                 " elements from ", tensor.own->first, " on"));
}

absl::Status CheckTensors(const Plan& plan, const Site& site) {
  std::set<std::string_view> persistent;  // names; values survive an iteration under them
  for (size_t i = 0; i < plan.tensors.size(); ++i) {
    const PlanTensor& tensor = plan.tensors[i];
    if (tensor.id != TensorId(i)) {
      return site.Fault(PlanFault::kId,
                        absl::StrFormat("the tensor at %d has id %d", i, tensor.id.value));
    }
    if (tensor.on_host() && !IsPersistent(tensor.role)) {
      return site.Fault(PlanFault::kTensor, absl::StrCat(site.Describe(tensor.id),
                                                         " is on the host, but not persistent"));
    }
    if (tensor.is_external && (tensor.on_host() || !IsPersistent(tensor.role))) {
      return site.Fault(PlanFault::kTensor,
                        absl::StrCat(site.Describe(tensor.id),
                                     " is external, but not persistent, or on the host as well"));
    }
    if (IsPersistent(tensor.role) && !persistent.insert(tensor.name).second) {
      return site.Fault(PlanFault::kTensor,
                        absl::StrCat(site.Describe(tensor.id), " has the name of another"));
    }
    const std::optional<int64_t> bytes = SizeBytes(tensor);
    if (!bytes.has_value() || *bytes != tensor.bytes) {
      return site.Fault(
          PlanFault::kTensor,
          absl::StrFormat("%s has %d bytes, but its shape is %s of %s", site.Describe(tensor.id),
                          tensor.bytes, tensor.shape.ToString(), std::string(Name(tensor.dtype))));
    }
    RETURN_IF_ERROR(CheckOwn(tensor, site));
    RETURN_IF_ERROR(CheckPart(plan, site, tensor));
  }
  return absl::OkStatus();
}

absl::Status CheckKnown(const Plan& plan, const Site& site, const PlanStep& step, const Ids& ids) {
  for (TensorId id : ids) {
    if (id.value >= 0 && id.index() < plan.tensors.size()) continue;
    return site.Fault(PlanFault::kId, absl::StrFormat("%s names the unknown tensor %d",
                                                      site.Describe(step.id), id.value));
  }
  return absl::OkStatus();
}

// A step may only overwrite a tensor in place if it reads the old tensor, writes the new one, and
// touches neither twice.
bool MayShare(const PlanStep& step, TensorId written, TensorId read) {
  return Has(step.writes, written) && Has(step.reads, read) && !Has(step.reads, written) &&
         !Has(step.accumulates, written) && !Has(step.writes, read) && !Has(step.accumulates, read);
}

// A tensor that a step changes is named once: `reads` alone may repeat one, as a sum of a tensor
// with itself does.
bool ChangesTwice(const PlanStep& step) {
  Ids changed = step.writes;
  changed.insert(changed.end(), step.accumulates.begin(), step.accumulates.end());
  std::sort(changed.begin(), changed.end());
  return std::adjacent_find(changed.begin(), changed.end()) != changed.end();
}

bool IsValidCollective(const PlanStep& step) {
  return step.reads.empty() && step.writes.empty() && step.rerun_reads.empty() &&
         step.slices.empty() && !step.accumulates.empty();
}

bool HasValidSlices(const Plan& plan, const PlanStep& step) {
  Ids sliced;
  for (const auto& [tensor, slice] : step.slices) {
    const bool is_used =
        Has(step.reads, tensor) || Has(step.writes, tensor) || Has(step.accumulates, tensor);
    if (!is_used || Has(sliced, tensor) || !IsIn(slice, plan.tensors[tensor.index()])) return false;
    sliced.push_back(tensor);
  }
  return true;
}

// A recomputation reads what the first run read or made.
bool HasValidReruns(const PlanStep& step) {
  if (step.rerun_reads.empty()) return true;
  return step.phase == Phase::kForward &&
         std::all_of(step.rerun_reads.begin(), step.rerun_reads.end(), [&](TensorId tensor) {
           return Has(step.reads, tensor) || Has(step.writes, tensor);
         });
}

bool HasValidPairs(const PlanStep& step) {
  auto pairs = step.in_place;
  std::sort(pairs.begin(), pairs.end());
  return std::adjacent_find(pairs.begin(), pairs.end()) == pairs.end() &&
         std::all_of(pairs.begin(), pairs.end(),
                     [&](const auto& pair) { return MayShare(step, pair.first, pair.second); });
}

absl::Status CheckStep(const Plan& plan, const Site& site, const PlanStep& step) {
  for (const Ids* ids : {&step.reads, &step.writes, &step.accumulates, &step.rerun_reads}) {
    RETURN_IF_ERROR(CheckKnown(plan, site, step, *ids));
  }
  const auto fault = [&](std::string_view what) {
    return site.Fault(PlanFault::kStep, absl::StrFormat("%s %s", site.Describe(step.id), what));
  };
  if (ChangesTwice(step)) return fault("writes or accumulates a tensor twice");
  if (IsCollective(step.phase) && !IsValidCollective(step))
    return fault("is one of all ranks, but does not only add to whole tensors");
  if (!HasValidSlices(plan, step))
    return fault("uses a slice that no tensor of it has, or two of one");
  if (!HasValidReruns(step)) {
    return fault(
        "lists what a recomputation reads, but is not a forward step, or does not use that");
  }
  if (!HasValidPairs(step)) return fault("cannot work in place as declared");
  if (step.phase == Phase::kPause) RETURN_IF_ERROR(CheckPause(plan, site, step));
  return CheckPart(plan, site, step);
}

}  // namespace

absl::Status CheckTables(const Plan& plan, const Site& site) {
  RETURN_IF_ERROR(CheckHeader(plan, site));
  RETURN_IF_ERROR(CheckTensors(plan, site));
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const PlanStep& step = plan.steps[i];
    if (step.id != StepId(i)) {
      return site.Fault(PlanFault::kId,
                        absl::StrFormat("the step at %d has id %d", i, step.id.value));
    }
    RETURN_IF_ERROR(CheckStep(plan, site, step));
  }
  return absl::OkStatus();
}

}  // namespace neap::verifier

#include "neap/core/verifier/values.h"

#include "absl/strings/str_format.h"
#include "neap/core/base/status_macros.h"

namespace neap::verifier {

const std::vector<TensorId>& RerunReads(const PlanStep& step) {
  return step.rerun_reads.empty() ? step.reads : step.rerun_reads;
}

bool RerunWrites(const PlanStep& step, TensorId tensor) { return !Has(step.rerun_reads, tensor); }

Values::Values(const Plan& plan, const Site& site)
    : site_(site), tensors_(plan.tensors.size()), first_runs_(plan.steps.size()) {
  for (const PlanTensor& tensor : plan.tensors) {
    if (tensor.on_host()) tensors_[tensor.id.index()].copy = 0;
    if (tensor.is_external) tensors_[tensor.id.index()].device = 0;
  }
}

absl::Status Values::CheckVersion(TensorId tensor, Version wanted) const {
  const std::optional<Version>& device = tensors_[tensor.index()].device;
  if (!device.has_value()) {
    return site_.Fault(PlanFault::kNoValue,
                       absl::StrFormat("%s holds no value", site_.Describe(tensor)));
  }
  if (*device == wanted) return absl::OkStatus();
  return site_.Fault(PlanFault::kStaleRead,
                     absl::StrFormat("%s holds version %d, not version %d", site_.Describe(tensor),
                                     *device, wanted));
}

absl::Status Values::CheckCurrent(TensorId tensor) const {
  return CheckVersion(tensor, tensors_[tensor.index()].current);
}

absl::Status Values::CheckRerunRead(const PlanStep& step, size_t index) const {
  return CheckVersion(RerunReads(step)[index], first_runs_[step.id.index()].read[index]);
}

void Values::Run(const PlanStep& step) {
  FirstRun first;
  const std::vector<TensorId>& reads = RerunReads(step);
  for (TensorId tensor : reads) first.read.push_back(tensors_[tensor.index()].current);
  for (TensorId tensor : step.writes) {
    TensorVersions& versions = tensors_[tensor.index()];
    versions.device = ++versions.current;
    first.written.push_back(versions.current);
  }
  for (TensorId tensor : step.accumulates) {
    TensorVersions& versions = tensors_[tensor.index()];
    versions.device = ++versions.current;
  }
  if (step.phase != Phase::kForward) return;
  for (size_t i = 0; i < reads.size(); ++i) {
    // Tensors that only a recomputation reads were written by the first run.
    if (!Has(step.reads, reads[i])) first.read[i] = tensors_[reads[i].index()].current;
  }
  first_runs_[step.id.index()] = std::move(first);
}

void Values::Rerun(const PlanStep& step) {
  const FirstRun& first = first_runs_[step.id.index()];
  for (size_t i = 0; i < step.writes.size(); ++i) {
    const TensorId tensor = step.writes[i];
    if (RerunWrites(step, tensor)) tensors_[tensor.index()].device = first.written[i];
  }
}

absl::Status Values::Offload(TensorId tensor) {
  TensorVersions& versions = tensors_[tensor.index()];
  if (!versions.device.has_value()) return CheckVersion(tensor, versions.current);
  versions.copy = versions.device;
  return absl::OkStatus();
}

absl::Status Values::CheckCopy(TensorId tensor) const {
  const TensorVersions& versions = tensors_[tensor.index()];
  if (!versions.copy.has_value()) {
    return site_.Fault(PlanFault::kCopy, "it has no copy");
  }
  if (*versions.copy != versions.current) {
    return site_.Fault(PlanFault::kCopy, absl::StrFormat("its copy is version %d, not version %d",
                                                         *versions.copy, versions.current));
  }
  return absl::OkStatus();
}

absl::Status Values::Prefetch(TensorId tensor) {
  RETURN_IF_ERROR(CheckCopy(tensor));
  tensors_[tensor.index()].device = tensors_[tensor.index()].copy;
  return absl::OkStatus();
}

}  // namespace neap::verifier

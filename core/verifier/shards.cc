#include "neap/core/verifier/shards.h"

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/verifier/values.h"

namespace neap::verifier {
namespace {

// The elements of the tensor that the step uses; nullopt: all.
std::optional<Slice> UsedSlice(const PlanStep& step, TensorId tensor) {
  for (const auto& [id, slice] : step.slices) {
    if (id == tensor) return slice;
  }
  return std::nullopt;
}

bool IsWithin(const std::optional<Slice>& used, const Slice& own) {
  return used.has_value() && used->first >= own.first && used->end() <= own.end();
}

}  // namespace

absl::Status Shards::Run(const PlanStep& step) {
  for (TensorId tensor : step.reads) RETURN_IF_ERROR(CheckRead(step, tensor));
  for (const auto* changed : {&step.writes, &step.accumulates}) {
    for (TensorId tensor : *changed) {
      RETURN_IF_ERROR(CheckChange(step, tensor));
      exchanged_[tensor.index()] = false;
    }
  }
  return absl::OkStatus();
}

absl::Status Shards::Rerun(const PlanStep& step) const {
  for (TensorId tensor : RerunReads(step)) RETURN_IF_ERROR(CheckRead(step, tensor));
  return absl::OkStatus();
}

absl::Status Shards::Take(const PlanStep& collective) {
  const Role sliced = collective.phase == Phase::kAllGather ? Role::kParam : Role::kParamGrad;
  for (TensorId tensor : collective.accumulates) {
    const bool is_sharded = plan_.tensors[tensor.index()].own.has_value();
    if (is_sharded == (collective.phase == Phase::kAllReduce))
      return Fault(tensor, "exchanges",
                   is_sharded ? "as a whole" : "which no rank owns a slice of");
    if (is_sharded && plan_.tensors[tensor.index()].role != sliced)
      return Fault(tensor, "exchanges", "with the other collective");
    if (collective.phase == Phase::kReduceScatter && exchanged_[tensor.index()])
      return Fault(tensor, "sums", "again");
    if (is_sharded) exchanged_[tensor.index()] = true;
  }
  return absl::OkStatus();
}

absl::Status Shards::CheckRead(const PlanStep& step, TensorId id) const {
  const PlanTensor& tensor = plan_.tensors[id.index()];
  if (!tensor.own.has_value()) return absl::OkStatus();
  const std::optional<Slice> used = UsedSlice(step, id);
  const bool is_own = IsWithin(used, *tensor.own);
  const bool is_exchanged = exchanged_[id.index()];
  if (tensor.role == Role::kParam) {
    if (is_exchanged || is_own) return absl::OkStatus();
    return Fault(id, "reads", "before the other ranks' slices are gathered");
  }
  // Backward may read the rank's own gradient as a whole.
  if (is_exchanged && !is_own) return Fault(id, "reads", "outside the rank's slice of the sum");
  if (!is_exchanged && used.has_value()) return Fault(id, "reads", "before its sum");
  return absl::OkStatus();
}

absl::Status Shards::CheckChange(const PlanStep& step, TensorId id) const {
  const PlanTensor& tensor = plan_.tensors[id.index()];
  if (!tensor.own.has_value()) return absl::OkStatus();
  if (tensor.role == Role::kParam) {
    if (IsWithin(UsedSlice(step, id), *tensor.own)) return absl::OkStatus();
    return Fault(id, "changes", "outside the rank's slice");
  }
  if (!exchanged_[id.index()]) return absl::OkStatus();
  return Fault(id, "changes", "after its sum");
}

absl::Status Shards::Fault(TensorId tensor, const char* does, const char* why) const {
  return site_.Fault(PlanFault::kShard,
                     absl::StrCat("it ", does, " ", site_.Describe(tensor), " ", why));
}

}  // namespace neap::verifier

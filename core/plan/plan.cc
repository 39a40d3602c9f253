#include "neap/core/plan/plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "neap/core/base/stable_hash.h"
#include "neap/core/base/units.h"
#include "neap/core/plan/plan_memory.h"

namespace neap {
namespace {

int64_t BytesOf(const Plan& plan, Role role) {
  int64_t bytes = 0;
  for (const PlanTensor& tensor : plan.tensors) bytes += tensor.role == role ? tensor.bytes : 0;
  return bytes;
}

}  // namespace

int64_t IncomingBytes(const Plan& plan) {
  return plan.incoming_batch.has_value() ? plan.incoming_batch->bytes : 0;
}

std::vector<TensorId> RunReads(const Plan& plan, const ComputeAction& compute) {
  const PlanStep& step = plan.steps[compute.step.index()];
  if (compute.recompute) return step.rerun_reads.empty() ? step.reads : step.rerun_reads;
  std::vector<TensorId> reads = step.reads;
  reads.insert(reads.end(), step.accumulates.begin(), step.accumulates.end());
  return reads;
}

std::vector<TensorId> RunWrites(const Plan& plan, const ComputeAction& compute) {
  const PlanStep& step = plan.steps[compute.step.index()];
  std::vector<TensorId> writes = step.writes;
  if (!compute.recompute) return writes;
  std::erase_if(writes, [&](TensorId id) {
    return std::find(step.rerun_reads.begin(), step.rerun_reads.end(), id) !=
           step.rerun_reads.end();
  });
  return writes;
}

int64_t CollectiveBytes(const Plan& plan, const CollectiveAction& collective) {
  int64_t bytes = 0;
  for (TensorId id : plan.steps[collective.step.index()].accumulates)
    bytes += plan.tensors[id.index()].bytes;
  return bytes;
}

std::optional<Stream> StreamOf(const Action& action) {
  if (std::holds_alternative<ComputeAction>(action)) return Stream::kCompute;
  if (std::holds_alternative<OffloadAction>(action)) return Stream::kD2h;
  if (std::holds_alternative<PrefetchAction>(action)) return Stream::kH2d;
  if (std::holds_alternative<CollectiveAction>(action)) return Stream::kCollective;
  return std::nullopt;
}

std::string_view Name(Pool pool) { return pool == Pool::kHost ? "host" : "peer"; }

std::string StepName(const PlanStep& step) {
  return absl::StrFormat("%s %s", step.layer, Name(step.phase));
}

std::string RunName(const Plan& plan, const ComputeAction& compute) {
  return StepName(plan.steps[compute.step.index()]) + (compute.recompute ? " again" : "");
}

std::string Plan::Summary() const {
  const std::string parts =
      sub_batches == 1 ? ""
                       : absl::StrFormat(" in %d sub-batches%s", sub_batches,
                                         batch_norm_in_parts ? ", batch norms of each alone" : "");
  std::string text = absl::StrFormat("%s, batch %d%s, %s %s, policy %s, on %s\n", net, batch, parts,
                                     Name(dtype), Name(layout), policy, device);
  absl::StrAppendFormat(&text, "  budget               %s\n", FormatBytes(budget_bytes));
  absl::StrAppendFormat(&text, "  arena = peak         %s (%d bytes)\n", FormatBytes(peak_bytes),
                        peak_bytes);
  for (const auto& [label, role] : {std::pair{"parameters", Role::kParam},
                                    {"fp32 masters", Role::kMaster},
                                    {"optimizer", Role::kOptimizer},
                                    {"states", Role::kState},
                                    {"input", Role::kInput}}) {
    if (role == Role::kMaster && BytesOf(*this, role) == 0) continue;
    absl::StrAppendFormat(&text, "  %-20s %s\n", label, FormatBytes(BytesOf(*this, role)));
  }
  int64_t external_bytes = 0;
  for (const PlanTensor& tensor : tensors) external_bytes += tensor.is_external ? tensor.bytes : 0;
  if (external_bytes > 0) {
    absl::StrAppendFormat(&text, "  external             %s of these, in memory of the caller's\n",
                          FormatBytes(external_bytes));
  }
  if (incoming_batch.has_value()) {
    absl::StrAppendFormat(&text,
                          "  next batch           %s, which it fills while this iteration runs\n",
                          FormatBytes(incoming_batch->bytes));
  }
  if (const std::optional<StepMemory> peak = ActivationPeak(MemoryPerStep(*this))) {
    const PlanStep& step = steps[peak->serves.index()];
    absl::StrAppendFormat(
        &text,
        "  activation peak      %.3f MiB (%d bytes) at step %d, %s %s, with %d live tensors\n",
        static_cast<double>(peak_activation_bytes) / static_cast<double>(kMiB),
        peak_activation_bytes, peak->serves.value + 1, step.layer, Name(step.phase),
        peak->live_activations);
  }
  const Movement total = TotalMovement(*this);
  if (total.extra_forwards > 0)
    absl::StrAppendFormat(&text, "  rebuilt              %d extra forward steps\n",
                          total.extra_forwards);
  if (host_peak_bytes > 0) {
    absl::StrAppendFormat(&text,
                          "  moved                %s to the host, %s back; %s there at most\n",
                          FormatBytes(total.offloaded_bytes - total.peer_offloaded_bytes),
                          FormatBytes(total.prefetched_bytes - total.peer_prefetched_bytes),
                          FormatBytes(host_peak_bytes));
  }
  if (peer_peak_bytes > 0) {
    absl::StrAppendFormat(&text,
                          "  moved                %s to the peer, %s back; %s there at most\n",
                          FormatBytes(total.peer_offloaded_bytes),
                          FormatBytes(total.peer_prefetched_bytes), FormatBytes(peer_peak_bytes));
  }
  absl::StrAppendFormat(&text, "  steps                %d, predicted %.3f ms\n", steps.size(),
                        predicted_ms);
  return text;
}

uint64_t Plan::Hash() const { return StableHash(ToJson()); }

}  // namespace neap

#include "neap/core/verifier_host.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_format.h"

namespace neap::verifier {
namespace {

int64_t CopyBytes(const PlanTensor& tensor) {
  const int64_t blocks = tensor.bytes / kBlockBytes + (tensor.bytes % kBlockBytes == 0 ? 0 : 1);
  return std::min(blocks, std::numeric_limits<int64_t>::max() / kBlockBytes) * kBlockBytes;
}

bool Knows(const Plan& plan, TensorId tensor) {
  return tensor.value >= 0 && tensor.index() < plan.tensors.size();
}

}  // namespace

HostCopies::HostCopies(const Plan& plan, const Site& site)
    : plan_(plan), site_(site), is_last_read_(plan.actions.size()), is_alive_(plan.tensors.size()) {
  for (const PlanTensor& tensor : plan.tensors) {
    if (!tensor.on_host) continue;
    is_alive_[tensor.id.index()] = true;
    bytes_ += std::min(CopyBytes(tensor), std::numeric_limits<int64_t>::max() - bytes_);
  }
  peak_bytes_ = bytes_;
  std::vector<bool> is_read_later(plan.tensors.size());
  for (size_t i = plan.actions.size(); i-- > 0;) {
    if (const auto* offload = std::get_if<OffloadAction>(&plan.actions[i])) {
      if (Knows(plan, offload->tensor)) is_read_later[offload->tensor.index()] = false;
    } else if (const auto* prefetch = std::get_if<PrefetchAction>(&plan.actions[i])) {
      if (!Knows(plan, prefetch->tensor)) continue;
      is_last_read_[i] = !is_read_later[prefetch->tensor.index()];
      is_read_later[prefetch->tensor.index()] = true;
    }
  }
}

absl::Status HostCopies::Offload(TensorId tensor) {
  if (is_alive_[tensor.index()]) return absl::OkStatus();
  const int64_t bytes = CopyBytes(plan_.tensors[tensor.index()]);
  if (bytes > plan_.host_peak_bytes - bytes_) {
    return site_.Fault(PlanFault::kTotals,
                       absl::StrFormat("%d bytes more on the host than the %d already there exceed "
                                       "host_peak_bytes, %d",
                                       bytes, bytes_, plan_.host_peak_bytes));
  }
  is_alive_[tensor.index()] = true;
  bytes_ += bytes;
  peak_bytes_ = std::max(peak_bytes_, bytes_);
  return absl::OkStatus();
}

void HostCopies::Prefetch(TensorId tensor) {
  if (!is_last_read_[*site_.action()] || plan_.tensors[tensor.index()].on_host) return;
  is_alive_[tensor.index()] = false;
  bytes_ -= CopyBytes(plan_.tensors[tensor.index()]);
}

}  // namespace neap::verifier

#include "neap/core/verifier/pools.h"

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

PoolCopies::PoolCopies(const Plan& plan, const Site& site)
    : plan_(plan),
      site_(site),
      totals_{Total{"host_peak_bytes", plan.host_peak_bytes},
              Total{"peer_peak_bytes", plan.peer_peak_bytes}},
      is_last_read_(plan.actions.size()),
      alive_in_(plan.tensors.size()) {
  Total& host = of(Pool::kHost);
  for (const PlanTensor& tensor : plan.tensors) {
    if (!tensor.on_host) continue;
    alive_in_[tensor.id.index()] = Pool::kHost;
    host.bytes += std::min(CopyBytes(tensor), std::numeric_limits<int64_t>::max() - host.bytes);
  }
  host.peak_bytes = host.bytes;
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

absl::Status PoolCopies::Offload(const OffloadAction& offload) {
  const PlanTensor& tensor = plan_.tensors[offload.tensor.index()];
  if (tensor.on_host && offload.pool != Pool::kHost) {
    return site_.Fault(PlanFault::kHostCopy,
                       "it is on the host between iterations, but leaves for the peer");
  }
  std::optional<Pool>& in = alive_in_[offload.tensor.index()];
  if (in == offload.pool) return absl::OkStatus();
  const int64_t bytes = CopyBytes(tensor);
  if (in.has_value()) of(*in).bytes -= bytes;
  Total& total = of(offload.pool);
  if (bytes > total.stated_bytes - total.bytes) {
    return site_.Fault(
        PlanFault::kTotals,
        absl::StrFormat("%d bytes more on the %s than the %d already there exceed %s, %d", bytes,
                        Name(offload.pool), total.bytes, total.name, total.stated_bytes));
  }
  in = offload.pool;
  total.bytes += bytes;
  total.peak_bytes = std::max(total.peak_bytes, total.bytes);
  return absl::OkStatus();
}

void PoolCopies::Prefetch(TensorId tensor) {
  if (!is_last_read_[*site_.action()] || plan_.tensors[tensor.index()].on_host) return;
  std::optional<Pool>& in = alive_in_[tensor.index()];
  of(*in).bytes -= CopyBytes(plan_.tensors[tensor.index()]);
  in.reset();
}

}  // namespace neap::verifier

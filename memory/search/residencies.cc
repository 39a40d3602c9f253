#include "neap/memory/search/residencies.h"

#include "neap/core/base/units.h"
#include "neap/memory/search/action_writer.h"
#include "neap/memory/transfer/overlap.h"

namespace neap {

Residencies::Residencies(const Program& program, const PlannerOptions& options)
    : program_(&program), options_(&options), layerwise_(BoundLayerwise(program, in_place())) {
  for (const Tensor& tensor : program.tensors)
    on_host_bytes_ += tensor.home == Home::kHost ? tensor.spec.size_bytes() : 0;
}

bool Residencies::in_place() const {
  return options_->in_place && program_->options.accounting == Accounting::kExact;
}

int64_t Residencies::Capacity(int64_t budget_bytes) const {
  if (budget_bytes == kUnlimited) return kUnlimited;
  return budget_bytes - PersistentBytes(*program_);
}

Residency Residencies::Under(const Usage& limit, const SearchOrder& order,
                             const std::vector<int64_t>& workspaces) const {
  const Usage residency_limit = order.policy.ResidencyLimit(limit, layerwise_);
  const Evictable evictable = may_move() ? order.policy.evictable : Evictable::kNone;
  Residency residency = DecideResidency(*program_, order.liveness, workspaces,
                                        {.keep_all = order.policy.keep_all,
                                         .eager = order.eager,
                                         .evictable = evictable,
                                         .eviction = order.eviction,
                                         .limit = residency_limit});
  if (!order.eager.empty())
    FetchOneConvolutionAhead(*program_, order.liveness, residency_limit, residency);
  return residency;
}

Residency Residencies::OverlappedUnder(const Usage& limit, const SearchOrder& order,
                                       const std::vector<int64_t>& workspaces) const {
  Residency residency = Under(limit, order, workspaces);
  OverlapTransfers(*program_, order.times, limit, residency);
  return residency;
}

}  // namespace neap

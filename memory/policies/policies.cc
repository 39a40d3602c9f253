#include "neap/memory/policies/policies.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "neap/memory/policies/auto.h"
#include "neap/memory/policies/chen.h"
#include "neap/memory/policies/modnn.h"
#include "neap/memory/policies/superneurons.h"
#include "neap/memory/policies/vdnn.h"
#include "neap/recompute/recompute.h"

namespace neap {

const std::vector<Policy>& Policies() {
  static const std::vector<Policy> policies = {
      {.name = "keep-all", .keep_all = true},
      {.name = "liveness"},
      {.name = "offload", .eager_tensors = ConvolutionResults},
      {.name = "tensor-cache", .evictable = Evictable::kAll},
      {.name = "recompute-speed",
       .order_runs = Orders<SpeedCentric>,
       .eager_tensors = CheckpointResults},
      {.name = "recompute-memory",
       .order_runs = Orders<MemoryCentric>,
       .eager_tensors = CheckpointResults,
       .evictable = Evictable::kOnlyCopied,
       .eviction = EvictionRule::kBelady,
       .to_layerwise_bound = true},
      {.name = "cost-aware",
       .order_runs = Orders<CostAware>,
       .eager_tensors = CheckpointResults,
       .evictable = Evictable::kOnlyCopied,
       .eviction = EvictionRule::kBelady,
       .to_layerwise_bound = true},
      {.name = "superneurons",
       .order_runs = Orders<WithoutReruns, CostAware>,
       .evictable = Evictable::kAll},
      {.name = "vdnn-all", .eager_tensors = AllInputs},
      {.name = "vdnn-conv", .eager_tensors = ConvolutionInputs},
      {.name = "modnn", .evictable = Evictable::kAll, .schedule = ModnnSchedule},
      {.name = "chen", .order_runs = Orders<SublinearOrder>},
      {.name = "auto",
       .order_runs = Orders<WithoutReruns, CostAware, SublinearOrder>,
       .priced_orders = FrontierOrders,
       .evictable = Evictable::kAll,
       .contains_eager = true,
       .may_split_batch = true,
       .may_offload_params = true},
  };
  return policies;
}

std::string_view DefaultPolicy(bool has_budget) { return has_budget ? "auto" : "liveness"; }

absl::StatusOr<Policy> FindPolicy(std::string_view name) {
  std::string known;
  for (const Policy& policy : Policies()) {
    if (policy.name == name) return policy;
    absl::StrAppendFormat(&known, " %s", policy.name);
  }
  return absl::NotFoundError(absl::StrFormat("unknown policy '%s'; known:%s", name, known));
}

}  // namespace neap

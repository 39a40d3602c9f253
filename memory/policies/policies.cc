#include "neap/memory/policies/policies.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "neap/memory/policies/chen.h"
#include "neap/memory/policies/superneurons.h"
#include "neap/memory/policies/vdnn.h"
#include "neap/recompute/recompute.h"

namespace neap {

const std::vector<Policy>& Policies() {
  static const std::vector<Policy> policies = {
      {.name = "keep-all",
       .description = "tensors keep their bytes for the whole iteration, unless overwritten",
       .keep_all = true},
      {.name = "liveness", .description = "a tensor's bytes are free after its last use"},
      {.name = "offload",
       .description = "CONV outputs leave for the host after forward, back one CONV ahead",
       .eager_tensors = ConvolutionResults},
      {.name = "tensor-cache",
       .description = "tensors leave for the host only where the budget is short",
       .evictable = Evictable::kAll},
      {.name = "recompute-speed",
       .description = "offloads checkpoints; rebuilds a segment once, keeps it until used",
       .order_runs = Orders<SpeedCentric>,
       .eager_tensors = CheckpointResults},
      {.name = "recompute-memory",
       .description = "offloads checkpoints; rebuilds what each backward step needs anew",
       .order_runs = Orders<MemoryCentric>,
       .eager_tensors = CheckpointResults,
       .evictable = Evictable::kOnlyCopied,
       .eviction = EvictionRule::kBelady,
       .to_layerwise_bound = true},
      {.name = "cost-aware",
       .description = "recompute-speed where that stays under the layer-wise bound, else -memory",
       .order_runs = Orders<CostAware>,
       .eager_tensors = CheckpointResults,
       .evictable = Evictable::kOnlyCopied,
       .eviction = EvictionRule::kBelady,
       .to_layerwise_bound = true},
      {.name = "superneurons",
       .description = "tensor-cache, with cost-aware recomputation where that is faster",
       .order_runs = Orders<WithoutReruns, CostAware>,
       .evictable = Evictable::kAll},
      {.name = "vdnn-all",
       .description = "every layer's input leaves for the host after forward",
       .eager_tensors = AllInputs},
      {.name = "vdnn-conv",
       .description = "the inputs of CONV layers leave for the host after forward",
       .eager_tensors = ConvolutionInputs},
      {.name = "chen",
       .description = "keeps sqrt(n) checkpoints, rebuilds all between them",
       .order_runs = Orders<SublinearOrder>},
  };
  return policies;
}

absl::StatusOr<Policy> FindPolicy(std::string_view name) {
  std::string known;
  for (const Policy& policy : Policies()) {
    if (policy.name == name) return policy;
    absl::StrAppendFormat(&known, " %s", policy.name);
  }
  return absl::NotFoundError(absl::StrFormat("unknown policy '%s'; known:%s", name, known));
}

}  // namespace neap

#include "neap/memory/policies/policies.h"

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "neap/memory/policies/superneurons.h"

namespace neap {
namespace {

// What forward steps read that backward may want again.
std::vector<bool> ForwardInputs(const Program& program, bool of_convolutions) {
  std::vector<bool> inputs(program.tensors.size(), false);
  for (const Step& step : program.steps) {
    if (step.phase != Phase::kForward) continue;
    if (of_convolutions && !program.layers[step.layer.index()].traits.hides_transfers) continue;
    for (const Use& use : step.reads) {
      if (program.tensor(use.tensor).role == Role::kActivation) inputs[use.tensor.index()] = true;
    }
  }
  return inputs;
}

}  // namespace

const std::vector<Policy>& Policies() {
  static const std::vector<Policy> policies = {
      {.name = "keep-all",
       .description = "tensors keep their bytes for the whole iteration, unless overwritten",
       .keep_all = true},
      {.name = "liveness", .description = "a tensor's bytes are free after its last use"},
      {.name = "offload",
       .description = "CONV outputs leave for the host after forward, back one CONV ahead",
       .eager = Eager::kConvolutionResults},
      {.name = "tensor-cache",
       .description = "tensors leave for the host only where the budget is short",
       .may_leave = MayLeave::kAll},
      {.name = "recompute-speed",
       .description = "offloads checkpoints; rebuilds a segment once, keeps it until used",
       .eager = Eager::kCheckpointResults,
       .recomputation = Recomputation::kSpeedCentric},
      {.name = "recompute-memory",
       .description = "offloads checkpoints; rebuilds what each backward step needs anew",
       .eager = Eager::kCheckpointResults,
       .may_leave = MayLeave::kOnlyCopied,
       .recomputation = Recomputation::kMemoryCentric,
       .to_layerwise_bound = true},
      {.name = "cost-aware",
       .description = "recompute-speed where that stays under the layer-wise bound, else -memory",
       .eager = Eager::kCheckpointResults,
       .may_leave = MayLeave::kOnlyCopied,
       .recomputation = Recomputation::kCostAware,
       .to_layerwise_bound = true},
      {.name = "superneurons",
       .description = "tensor-cache, with cost-aware recomputation where that is faster",
       .may_leave = MayLeave::kAll,
       .recomputation = Recomputation::kCostAware},
      {.name = "vdnn-all",
       .description = "every layer's input leaves for the host after forward",
       .eager = Eager::kAllInputs},
      {.name = "vdnn-conv",
       .description = "the inputs of CONV layers leave for the host after forward",
       .eager = Eager::kConvolutionInputs},
      {.name = "chen",
       .description = "keeps sqrt(n) checkpoints, rebuilds all between them",
       .recomputation = Recomputation::kEvenSegments},
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

std::vector<bool> EagerTensors(const Program& program, Eager eager,
                               const std::vector<bool>& checkpoints) {
  switch (eager) {
    case Eager::kNone:
      break;
    case Eager::kConvolutionResults:
      return ConvolutionResults(program);
    case Eager::kCheckpointResults:
      return checkpoints;
    case Eager::kConvolutionInputs:
      return ForwardInputs(program, true);
    case Eager::kAllInputs:
      return ForwardInputs(program, false);
  }
  return {};
}

}  // namespace neap

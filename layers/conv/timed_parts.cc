#include "neap/layers/conv/timed_parts.h"

#include <algorithm>
#include <string>

#include "neap/core/status_macros.h"
#include "neap/layers/conv/divided_kernel.h"
#include "neap/layers/signature_text.h"

namespace neap {
namespace {

bool MayHave(DivisionPolicy policy, int64_t part, int64_t granularity) {
  if (policy == DivisionPolicy::kUndivided || part % granularity != 0) return false;
  return policy == DivisionPolicy::kAll || IsPowerOfTwo(part);
}

bool Lists(absl::Span<const Engine> engines, const std::string& id, int64_t workspace_bytes) {
  return std::any_of(engines.begin(), engines.end(), [&](const Engine& engine) {
    return engine.id == id && engine.workspace_bytes <= workspace_bytes;
  });
}

}  // namespace

TimedParts TimedPartsOf(const StepSignature& signature, absl::Span<const Engine> listed,
                        DivisionPolicy divisions, const KernelTimings& timings) {
  TimedParts known = {.engines = timings.Of(signature), .accumulation = {}};
  const int64_t batch = BatchOf(signature);
  const bool is_divisible = IsDivisible(signature);
  const int64_t granularity = is_divisible ? BatchGranularity(signature) : batch;
  std::erase_if(known.engines, [&](const TimedEngine& engine) {
    if (engine.batch == batch) return !Lists(listed, engine.engine, engine.workspace_bytes);
    return !is_divisible || !MayHave(divisions, engine.batch, granularity);
  });
  if (!is_divisible) return known;
  known.accumulation.scratch_bytes = DivisionScratchBytes(signature);
  for (const OperandSpec& operand : signature.operands) {
    if (operand.operand.slot == Slot::kParamGrad)
      known.accumulation.seconds += AdditionSeconds(operand.tensor, timings);
  }
  return known;
}

absl::StatusOr<std::optional<EngineUse>> FindUnlisted(const StepSignature& signature,
                                                      const Configuration& configuration,
                                                      EngineCatalog& catalog) {
  const bool is_divided = configuration.parts.size() > 1;
  const int64_t bytes =
      configuration.workspace_bytes - (is_divided ? DivisionScratchBytes(signature) : 0);
  const EngineUse* last = nullptr;
  for (const EngineUse& part : configuration.parts) {
    if (last != nullptr && part == *last) continue;
    last = &part;
    ASSIGN_OR_RETURN(const std::vector<Engine> engines,
                     catalog.Engines(WithBatch(signature, part.batch)));
    if (!Lists(engines, part.engine, bytes)) return part;
  }
  return std::nullopt;
}

double AdditionSeconds(const TensorSpec& spec, const KernelTimings& timings) {
  const StepSignature addition = AdditionSignature(spec);
  for (const TimedEngine& engine : timings.Of(addition)) {
    if (engine.batch == BatchOf(addition)) return engine.seconds;
  }
  return 0;
}

}  // namespace neap

#include "neap/layers/conv/timed_parts.h"

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>

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

// Of adding by a kernel what a part wrote to scratch.
Addition ScratchAddition(const StepSignature& signature, const KernelTimings& timings) {
  Addition addition = {.workspace_bytes = DivisionScratchBytes(signature)};
  for (const OperandSpec& operand : signature.operands) {
    if (operand.operand.slot == Slot::kParamGrad)
      addition.seconds += AdditionSeconds(operand.tensor, timings);
  }
  return addition;
}

// By itself where that was measured.
void AddAdditions(const StepSignature& signature, const KernelTimings& timings,
                  std::vector<TimedEngine>& engines) {
  const Addition by_scratch = ScratchAddition(signature, timings);
  std::vector<TimedEngine> adding = timings.Of(AddingSignature(signature));
  const auto key = [](const TimedEngine& engine) { return std::tie(engine.batch, engine.engine); };
  const auto precedes = [&](const TimedEngine& a, const TimedEngine& b) { return key(a) < key(b); };
  std::sort(adding.begin(), adding.end(), precedes);
  for (TimedEngine& engine : engines) {
    const auto same = std::lower_bound(adding.begin(), adding.end(), engine, precedes);
    const bool adds = same != adding.end() && key(*same) == key(engine);
    engine.addition = by_scratch;
    if (!adds) continue;
    engine.addition = {
        .workspace_bytes = std::max<int64_t>(0, same->workspace_bytes - engine.workspace_bytes),
        .seconds = std::max(0.0, same->seconds - engine.seconds)};
  }
}

// A part of the configuration that the library has no more, or only in more workspace.
absl::StatusOr<std::optional<EngineUse>> FindUnlisted(const StepSignature& signature,
                                                      const Configuration& configuration,
                                                      EngineCatalog& catalog) {
  const int64_t scratch_bytes = DivisionScratchBytes(signature);
  const EngineUse* last = nullptr;  // but the first
  for (const EngineUse& part : configuration.parts) {
    const bool is_first = &part == &configuration.parts.front();
    if (last != nullptr && part == *last) continue;
    if (!is_first) last = &part;
    const StepSignature like = WithBatch(signature, part.batch);
    int64_t bytes = configuration.workspace_bytes;
    if (!is_first && SumsParts(signature)) {
      ASSIGN_OR_RETURN(const bool adds, AddsByItself(catalog, like, part.engine, bytes));
      if (adds) continue;
      bytes -= scratch_bytes;
    }
    ASSIGN_OR_RETURN(const std::vector<Engine> engines, catalog.Engines(like));
    if (!Lists(engines, part.engine, bytes)) return part;
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<EngineUse>> FindUnlisted(const StepSignature& signature,
                                                      absl::Span<const Configuration> chosen,
                                                      EngineCatalog& catalog) {
  for (const Configuration& configuration : chosen) {
    ASSIGN_OR_RETURN(const std::optional<EngineUse> unlisted,
                     FindUnlisted(signature, configuration, catalog));
    if (unlisted.has_value()) return unlisted;
  }
  return std::nullopt;
}

}  // namespace

std::vector<TimedEngine> TimedPartsOf(const StepSignature& signature,
                                      absl::Span<const Engine> listed, DivisionPolicy divisions,
                                      const KernelTimings& timings) {
  std::vector<TimedEngine> known = timings.Of(signature);
  const int64_t batch = BatchOf(signature);
  const bool is_divisible = IsDivisible(signature);
  const int64_t granularity = is_divisible ? BatchGranularity(signature) : batch;
  std::erase_if(known, [&](const TimedEngine& engine) {
    if (engine.batch == batch) return !Lists(listed, engine.engine, engine.workspace_bytes);
    return !is_divisible || !MayHave(divisions, engine.batch, granularity);
  });
  if (SumsParts(signature)) AddAdditions(signature, timings, known);
  return known;
}

absl::StatusOr<std::vector<Configuration>> ChooseListed(
    const StepSignature& signature,
    absl::FunctionRef<std::vector<Configuration>(const std::vector<TimedEngine>&)> choose,
    EngineCatalog& catalog, std::vector<TimedEngine>& known) {
  for (;;) {
    std::vector<Configuration> chosen = choose(known);
    ASSIGN_OR_RETURN(const std::optional<EngineUse> unlisted,
                     FindUnlisted(signature, chosen, catalog));
    if (!unlisted.has_value()) return chosen;
    std::erase_if(known, [&](const TimedEngine& timed) {
      return timed.engine == unlisted->engine && timed.batch == unlisted->batch;
    });
  }
}

double AdditionSeconds(const TensorSpec& spec, const KernelTimings& timings) {
  const StepSignature addition = AdditionSignature(spec);
  for (const TimedEngine& engine : timings.Of(addition)) {
    if (engine.batch == BatchOf(addition)) return engine.seconds;
  }
  return 0;
}

}  // namespace neap

#include "neap/layers/conv/measured_parts.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "neap/core/base/status_macros.h"
#include "neap/core/step/divided_kernel.h"
#include "neap/core/step/signature_text.h"

namespace neap {
namespace {

bool Lists(absl::Span<const Engine> engines, const std::string& id, int64_t workspace_bytes) {
  return std::any_of(engines.begin(), engines.end(), [&](const Engine& engine) {
    return engine.id == id && engine.workspace_bytes <= workspace_bytes;
  });
}

// The time of the kernels that add a part's gradients from scratch memory to the sums; nullopt
// unless all of them were measured.
std::optional<double> ScratchSeconds(const StepSignature& signature, const KernelTimings& timings) {
  double sum = 0;
  for (const OperandSpec& operand : signature.operands) {
    if (operand.operand.slot != Slot::kParamGrad) continue;
    const std::optional<double> seconds = AdditionSeconds(operand.tensor, timings);
    if (!seconds.has_value()) return std::nullopt;
    sum += *seconds;
  }
  return sum;
}

// Adds the two ways in which parts after the first reach the sum: by scratch memory, or by an
// engine that adds.
void AddSums(const StepSignature& signature, const KernelTimings& timings,
             std::vector<TimedEngine>& engines) {
  const Addition addition = {.workspace_bytes = DivisionScratchBytes(signature),
                             .seconds = ScratchSeconds(signature, timings)};
  for (TimedEngine& engine : engines) engine.addition = addition;
  for (TimedEngine& engine : timings.Of(AddingSignature(signature))) {
    engine.adds = true;
    engines.push_back(std::move(engine));
  }
}

// A part of the configuration whose engine the library no longer lists, or only with more
// workspace.
absl::StatusOr<std::optional<EngineUse>> FindUnlisted(const StepSignature& signature,
                                                      const Configuration& configuration,
                                                      EngineCatalog& catalog) {
  const EngineUse* last = nullptr;  // the last part checked, except the first part
  for (const EngineUse& part : configuration.parts) {
    const bool is_first = &part == &configuration.parts.front();
    if (last != nullptr && part == *last) continue;
    if (!is_first) last = &part;
    const StepSignature like = WithBatch(signature, part.batch);
    ASSIGN_OR_RETURN(const std::vector<Engine> engines,
                     part.adds ? AddingEngines(like, catalog) : EnginesOrNone(like, catalog));
    const bool by_scratch = !is_first && !part.adds;
    const int64_t bytes =
        configuration.workspace_bytes - (by_scratch ? DivisionScratchBytes(signature) : 0);
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

absl::StatusOr<std::vector<Engine>> EnginesOrNone(const StepSignature& signature,
                                                  EngineCatalog& catalog) {
  absl::StatusOr<std::vector<Engine>> engines = catalog.Engines(signature);
  return absl::IsUnimplemented(engines.status()) ? std::vector<Engine>() : engines;
}

absl::StatusOr<std::vector<Engine>> WholeEngines(const StepSignature& signature,
                                                 DivisionPolicy divisions, EngineCatalog& catalog) {
  absl::StatusOr<std::vector<Engine>> whole = catalog.Engines(signature);
  if (!absl::IsUnimplemented(whole.status()) || !IsDivisible(signature)) return whole;
  const int64_t smallest =
      MicroBatchSizes(divisions, BatchOf(signature), BatchGranularity(signature)).front();
  if (smallest == BatchOf(signature)) return whole;
  const absl::StatusOr<std::vector<Engine>> part = catalog.Engines(WithBatch(signature, smallest));
  return part.ok() ? std::vector<Engine>() : whole;
}

std::vector<TimedEngine> MeasuredPartsOf(const StepSignature& signature,
                                         absl::Span<const Engine> listed, DivisionPolicy divisions,
                                         bool deterministic, const KernelTimings& timings) {
  std::vector<TimedEngine> known = timings.Of(signature);
  if (SumsParts(signature)) AddSums(signature, timings, known);
  const int64_t batch = BatchOf(signature);
  const std::vector<int64_t> sizes =
      IsDivisible(signature) ? MicroBatchSizes(divisions, batch, BatchGranularity(signature))
                             : std::vector{batch};
  const bool may_add_in_half = std::any_of(listed.begin(), listed.end(),
                                           [](const Engine& e) { return e.accumulates_in_half; });
  std::erase_if(known, [&](const TimedEngine& engine) {
    if (deterministic && !engine.deterministic) return true;
    if (engine.accumulates_in_half && !may_add_in_half) return true;
    if (engine.batch == batch)
      return engine.adds || !Lists(listed, engine.engine, engine.workspace_bytes);
    return !std::binary_search(sizes.begin(), sizes.end(), engine.batch);
  });
  return known;
}

bool KnowsWhole(absl::Span<const TimedEngine> known, const StepSignature& signature) {
  return std::any_of(known.begin(), known.end(),
                     [&](const TimedEngine& engine) { return engine.batch == BatchOf(signature); });
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
      const bool is_part = timed.batch < BatchOf(signature) && unlisted->batch < BatchOf(signature);
      return timed.engine == unlisted->engine && timed.adds == unlisted->adds &&
             (is_part || timed.batch == unlisted->batch);
    });
  }
}

std::vector<Engine> UsableEngines(const StepSignature& signature, std::vector<Engine> listed,
                                  bool deterministic, const KernelTimings* timings) {
  std::vector<std::string> failed;
  if (timings != nullptr) failed = timings->FailedOn(signature);
  std::erase_if(listed, [&](const Engine& engine) {
    return (deterministic && !engine.deterministic) ||
           std::find(failed.begin(), failed.end(), engine.id) != failed.end();
  });
  return listed;
}

std::optional<double> AdditionSeconds(const TensorSpec& spec, const KernelTimings& timings) {
  const StepSignature addition = AdditionSignature(spec);
  for (const TimedEngine& engine : timings.Of(addition)) {
    if (engine.batch == BatchOf(addition)) return engine.seconds;
  }
  return std::nullopt;
}

}  // namespace neap

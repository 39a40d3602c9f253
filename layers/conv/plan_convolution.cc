#include "neap/layers/conv/plan_convolution.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/divided_kernel.h"
#include "neap/core/step/signature_text.h"
#include "neap/layers/conv/measured_parts.h"

namespace neap {
namespace {

absl::Status TooSmall(int64_t limit_bytes, int64_t least_bytes) {
  return absl::ResourceExhaustedError(absl::StrCat(
      "nothing fits ", limit_bytes, " bytes of workspace; the convolution needs ", least_bytes));
}

struct ByTime {
  std::optional<Configuration> fastest = {};  // nullopt if no measured configuration fits
  int64_t least_bytes = kUnlimited;           // of the measured configurations
};

// The fastest measured configuration that uses only engines that the library still lists.
absl::StatusOr<ByTime> FastestByTime(const StepSignature& step, const ConvolutionOptions& options,
                                     EngineCatalog& catalog) {
  ASSIGN_OR_RETURN(const std::vector<Engine> listed,
                   WholeEngines(step, options.divisions, catalog));
  std::vector<TimedEngine> known =
      MeasuredPartsOf(step, listed, options.divisions, options.deterministic, *options.timings);
  if (!KnowsWhole(known, step)) return ByTime{};
  const int64_t batch = BatchOf(step);
  const int64_t granularity = BatchGranularity(step);
  const auto fastest_of = [&](const std::vector<TimedEngine>& parts) {
    std::optional<Configuration> fastest =
        FastestDivision(parts, batch, granularity, options.workspace_limit_bytes);
    return fastest.has_value() ? std::vector{*std::move(fastest)} : std::vector<Configuration>{};
  };
  ASSIGN_OR_RETURN(std::vector<Configuration> fastest,
                   ChooseListed(step, fastest_of, catalog, known));
  if (!fastest.empty()) return ByTime{.fastest = std::move(fastest.front())};
  const std::vector<Configuration> any =
      DesirableConfigurations(known, batch, granularity, kUnlimited);
  return any.empty() ? ByTime{} : ByTime{.least_bytes = any.front().workspace_bytes};
}

// The first usable engine that fits, or, if none does, the one with the smallest workspace.
std::optional<Engine> FirstOf(const StepSignature& signature, std::vector<Engine> listed,
                              const ConvolutionOptions& options, int64_t limit_bytes) {
  std::vector<Engine> engines =
      UsableEngines(signature, std::move(listed), options.deterministic, options.timings);
  if (engines.empty()) return std::nullopt;
  const auto fits = std::find_if(engines.begin(), engines.end(), [&](const Engine& engine) {
    return engine.workspace_bytes <= limit_bytes;
  });
  if (fits != engines.end()) return *fits;
  return *std::min_element(engines.begin(), engines.end(), [](const Engine& a, const Engine& b) {
    return a.workspace_bytes < b.workspace_bytes;
  });
}

// The engine for a part after the first: one that adds to the gradients, if any does within the
// limit, otherwise one that goes through scratch memory.
absl::StatusOr<std::optional<TimedEngine>> LaterPart(const StepSignature& part,
                                                     const ConvolutionOptions& options,
                                                     EngineCatalog& catalog) {
  const int64_t limit_bytes = options.workspace_limit_bytes;
  if (SumsParts(part)) {
    ASSIGN_OR_RETURN(std::vector<Engine> adding, AddingEngines(part, catalog));
    const std::optional<Engine> first =
        FirstOf(AddingSignature(part), std::move(adding), options, limit_bytes);
    if (first.has_value() && first->workspace_bytes <= limit_bytes)
      return TimedEngine{.engine = first->id,
                         .batch = BatchOf(part),
                         .workspace_bytes = first->workspace_bytes,
                         .adds = true};
  }
  const int64_t scratch_bytes = DivisionScratchBytes(part);
  ASSIGN_OR_RETURN(std::vector<Engine> engines, catalog.Engines(part));
  const std::optional<Engine> engine =
      FirstOf(part, std::move(engines), options, limit_bytes - scratch_bytes);
  if (!engine.has_value()) return std::nullopt;
  return TimedEngine{.engine = engine->id,
                     .batch = BatchOf(part),
                     .workspace_bytes = engine->workspace_bytes + scratch_bytes};
}

// Parts of `size` images and one part with the remainder; nullopt if a part has no usable engine.
absl::StatusOr<std::optional<Configuration>> InPartsOf(int64_t size, const StepSignature& step,
                                                       const ConvolutionOptions& options,
                                                       EngineCatalog& catalog) {
  const int64_t batch = BatchOf(step);
  const StepSignature part = WithBatch(step, size);
  ASSIGN_OR_RETURN(std::vector<Engine> engines, WholeEngines(part, options.divisions, catalog));
  const std::optional<Engine> first =
      FirstOf(part, std::move(engines), options, options.workspace_limit_bytes);
  if (!first.has_value()) return std::nullopt;
  Configuration configuration = {.parts = {{first->id, size}},
                                 .workspace_bytes = first->workspace_bytes};
  const std::pair<int64_t, int64_t> later[] = {{size, batch / size - 1}, {batch % size, 1}};
  for (const auto& [images, count] : later) {
    if (images == 0 || count == 0) continue;
    ASSIGN_OR_RETURN(const std::optional<TimedEngine> next,
                     LaterPart(WithBatch(step, images), options, catalog));
    if (!next.has_value()) return std::nullopt;
    configuration.parts.insert(configuration.parts.end(), static_cast<size_t>(count), next->use());
    configuration.workspace_bytes = std::max(configuration.workspace_bytes, next->workspace_bytes);
  }
  return configuration;
}

// Nullopt if no engine is usable. `least_bytes` is a workspace that is known to be sufficient.
absl::StatusOr<std::optional<Configuration>> FirstInLibraryOrder(const StepSignature& step,
                                                                 const ConvolutionOptions& options,
                                                                 int64_t least_bytes,
                                                                 EngineCatalog& catalog) {
  const int64_t batch = BatchOf(step);
  const int64_t granularity = BatchGranularity(step);
  const std::vector<int64_t> sizes =
      MicroBatchSizes(std::min(options.divisions, DivisionPolicy::kPowerOfTwo), batch, granularity);
  for (auto size = sizes.rbegin(); size != sizes.rend(); ++size) {
    if (*size < batch && *size % granularity != 0) continue;
    ASSIGN_OR_RETURN(std::optional<Configuration> configuration,
                     InPartsOf(*size, step, options, catalog));
    if (!configuration.has_value()) continue;
    if (configuration->workspace_bytes <= options.workspace_limit_bytes) return configuration;
    least_bytes = std::min(least_bytes, configuration->workspace_bytes);
  }
  if (least_bytes == kUnlimited) return std::nullopt;
  return TooSmall(options.workspace_limit_bytes, least_bytes);
}

}  // namespace

absl::StatusOr<Configuration> PlanConvolution(const StepSignature& step,
                                              const ConvolutionOptions& options,
                                              EngineCatalog& catalog) {
  if (!IsDivisible(step)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a step of type ", std::string(step.layer.type()), " is not divisible"));
  }
  ByTime by_time;
  if (options.timings != nullptr) {
    ASSIGN_OR_RETURN(by_time, FastestByTime(step, options, catalog));
  }
  if (by_time.fastest.has_value()) return *std::move(by_time.fastest);
  ASSIGN_OR_RETURN(std::optional<Configuration> first,
                   FirstInLibraryOrder(step, options, by_time.least_bytes, catalog));
  if (!first.has_value()) {
    ConvolutionOptions with_failed = options;
    with_failed.timings = nullptr;
    ASSIGN_OR_RETURN(first, FirstInLibraryOrder(step, with_failed, kUnlimited, catalog));
  }
  if (first.has_value()) return *std::move(first);
  return absl::FailedPreconditionError("the library has no deterministic engine");
}

}  // namespace neap

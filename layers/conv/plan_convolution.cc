#include "neap/layers/conv/plan_convolution.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/status_macros.h"
#include "neap/layers/conv/divided_kernel.h"
#include "neap/layers/conv/timed_parts.h"
#include "neap/layers/signature_text.h"

namespace neap {
namespace {

absl::Status TooSmall(int64_t limit_bytes, int64_t least_bytes) {
  return absl::ResourceExhaustedError(absl::StrCat(
      "nothing fits ", limit_bytes, " bytes of workspace; the convolution needs ", least_bytes));
}

struct ByTime {
  std::optional<Configuration> fastest = {};  // none where nothing that was measured fits
  int64_t least_bytes = kUnlimited;           // of what was measured
};

// Of what the library still has.
absl::StatusOr<ByTime> FastestByTime(const StepSignature& step, const ConvolutionOptions& options,
                                     EngineCatalog& catalog) {
  ASSIGN_OR_RETURN(const std::vector<Engine> listed, catalog.Engines(step));
  std::vector<TimedEngine> known =
      TimedPartsOf(step, listed, options.divisions, options.deterministic, *options.timings);
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

// The first that fits, else the smallest.
absl::StatusOr<Engine> FirstOf(std::vector<Engine> engines, bool deterministic,
                               int64_t limit_bytes) {
  if (deterministic)
    std::erase_if(engines, [](const Engine& engine) { return !engine.deterministic; });
  if (engines.empty())
    return absl::FailedPreconditionError("the library has no deterministic engine");
  const auto fits = std::find_if(engines.begin(), engines.end(), [&](const Engine& engine) {
    return engine.workspace_bytes <= limit_bytes;
  });
  if (fits != engines.end()) return *fits;
  return *std::min_element(engines.begin(), engines.end(), [](const Engine& a, const Engine& b) {
    return a.workspace_bytes < b.workspace_bytes;
  });
}

// What a part's gradients are added to the sum by: its engine, if there is one that does so in the
// limit, else scratch.
absl::StatusOr<TimedEngine> LaterPart(const StepSignature& part, const ConvolutionOptions& options,
                                      EngineCatalog& catalog) {
  const int64_t limit_bytes = options.workspace_limit_bytes;
  if (SumsParts(part)) {
    ASSIGN_OR_RETURN(std::vector<Engine> adding, AddingEngines(part, catalog));
    const absl::StatusOr<Engine> first =
        FirstOf(std::move(adding), options.deterministic, limit_bytes);
    if (first.ok() && first->workspace_bytes <= limit_bytes)
      return TimedEngine{.engine = first->id,
                         .batch = BatchOf(part),
                         .workspace_bytes = first->workspace_bytes,
                         .adds = true};
  }
  const int64_t scratch_bytes = DivisionScratchBytes(part);
  ASSIGN_OR_RETURN(std::vector<Engine> engines, catalog.Engines(part));
  ASSIGN_OR_RETURN(const Engine engine,
                   FirstOf(std::move(engines), options.deterministic, limit_bytes - scratch_bytes));
  return TimedEngine{.engine = engine.id,
                     .batch = BatchOf(part),
                     .workspace_bytes = engine.workspace_bytes + scratch_bytes};
}

// Parts of `size` images, and one of what is left.
absl::StatusOr<Configuration> InPartsOf(int64_t size, const StepSignature& step,
                                        const ConvolutionOptions& options, EngineCatalog& catalog) {
  const int64_t batch = BatchOf(step);
  ASSIGN_OR_RETURN(std::vector<Engine> engines, catalog.Engines(WithBatch(step, size)));
  ASSIGN_OR_RETURN(const Engine first, FirstOf(std::move(engines), options.deterministic,
                                               options.workspace_limit_bytes));
  Configuration configuration = {.parts = {{first.id, size}},
                                 .workspace_bytes = first.workspace_bytes};
  const auto append = [&](int64_t images, int64_t count) -> absl::Status {
    if (images == 0 || count == 0) return absl::OkStatus();
    ASSIGN_OR_RETURN(const TimedEngine part, LaterPart(WithBatch(step, images), options, catalog));
    configuration.parts.insert(configuration.parts.end(), static_cast<size_t>(count), part.use());
    configuration.workspace_bytes = std::max(configuration.workspace_bytes, part.workspace_bytes);
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(append(size, batch / size - 1));
  RETURN_IF_ERROR(append(batch % size, 1));
  return configuration;
}

// `least_bytes`: that are known to do.
absl::StatusOr<Configuration> FirstInLibraryOrder(const StepSignature& step,
                                                  const ConvolutionOptions& options,
                                                  int64_t least_bytes, EngineCatalog& catalog) {
  const int64_t batch = BatchOf(step);
  const int64_t granularity = BatchGranularity(step);
  const std::vector<int64_t> sizes =
      MicroBatchSizes(std::min(options.divisions, DivisionPolicy::kPowerOfTwo), batch, granularity);
  for (auto size = sizes.rbegin(); size != sizes.rend(); ++size) {
    if (*size < batch && *size % granularity != 0) continue;
    ASSIGN_OR_RETURN(Configuration configuration, InPartsOf(*size, step, options, catalog));
    if (configuration.workspace_bytes <= options.workspace_limit_bytes) return configuration;
    least_bytes = std::min(least_bytes, configuration.workspace_bytes);
  }
  return TooSmall(options.workspace_limit_bytes, least_bytes);
}

}  // namespace

absl::StatusOr<Configuration> PlanConvolution(const StepSignature& step,
                                              const ConvolutionOptions& options,
                                              EngineCatalog& catalog) {
  if (!IsDivisible(step)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a step of type ", std::string(step.layer.type()), " is no convolution's"));
  }
  ByTime by_time;
  if (options.timings != nullptr) {
    ASSIGN_OR_RETURN(by_time, FastestByTime(step, options, catalog));
  }
  if (by_time.fastest.has_value()) return *std::move(by_time.fastest);
  return FirstInLibraryOrder(step, options, by_time.least_bytes, catalog);
}

}  // namespace neap

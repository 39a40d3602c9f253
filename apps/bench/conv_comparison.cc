#include "apps/bench/conv_comparison.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "absl/strings/str_format.h"
#include "apps/cli/interrupt.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/divided_kernel.h"
#include "neap/core/step/signature_text.h"
#include "neap/layers/conv/workspace_division.h"

namespace neap::apps {
namespace {

constexpr int64_t kDefaultBytesPerKernel = 8 * kMiB;  // u-cuDNN's, IV-B
// The most that one kernel gets of the total: few engines need more, and it must be allocated.
constexpr int64_t kMaxOfTotalBytes = 2 * kGiB;

int64_t CountOf(const std::vector<ConvKernel>& kernels) {
  int64_t count = 0;
  for (const ConvKernel& kernel : kernels) count += kernel.count;
  return count;
}

void AddTo(ConvSeconds& sum, const ConvSeconds& seconds, int64_t times) {
  sum.predicted += seconds.predicted * static_cast<double>(times);
  if (seconds.executed.has_value())
    sum.executed = sum.executed.value_or(0) + *seconds.executed * static_cast<double>(times);
}

// Absent if there are none.
std::optional<ConvSeconds> SumOf(const std::vector<WorkspaceSegment>& segments) {
  if (segments.empty()) return std::nullopt;
  ConvSeconds sum;
  for (const WorkspaceSegment& segment : segments) AddTo(sum, segment.timed.seconds, 1);
  return sum;
}

}  // namespace

std::optional<double> ConvAtLimit::speedup() const {
  if (!undivided.has_value() || !divided.has_value()) return std::nullopt;
  return undivided->seconds.best_known() / divided->seconds.best_known();
}

std::optional<double> LimitTotal::speedup() const {
  if (divided.predicted <= 0) return std::nullopt;
  return undivided.best_known() / divided.best_known();
}

std::optional<double> WorkspaceComparison::speedup() const {
  if (!separate.has_value() || !divided.has_value()) return std::nullopt;
  return separate->best_known() / divided->best_known();
}

int64_t ConvBenchOptions::TotalBytes(const std::vector<ConvKernel>& kernels) const {
  return total_bytes.value_or(kDefaultBytesPerKernel * CountOf(kernels));
}

int64_t ConvBenchOptions::MeasuredWorkspaceBytes(const std::vector<ConvKernel>& kernels) const {
  const int64_t of_total = std::min(TotalBytes(kernels), kMaxOfTotalBytes);
  return std::max(of_total, *std::max_element(limits_bytes.begin(), limits_bytes.end()));
}

absl::StatusOr<ConvBenchResult> ConvBench::Run(const std::vector<ConvKernel>& kernels) {
  WatchForInterrupt();
  ConvBenchResult result = {.limits_bytes = options_.limits_bytes,
                            .kernels_asked = std::ssize(kernels)};
  const absl::Status status = Fill(kernels, result);
  if (!absl::IsCancelled(status)) RETURN_IF_ERROR(status);
  result.engines_left_out = static_cast<int64_t>(left_out_.size());
  line_->Show(std::ssize(result.kernels), result.kernels_asked);
  line_->End();
  return result;
}

absl::Status ConvBench::Fill(const std::vector<ConvKernel>& kernels, ConvBenchResult& result) {
  for (const ConvKernel& kernel : kernels) {
    line_->Show(std::ssize(result.kernels), result.kernels_asked);
    ASSIGN_OR_RETURN(ConvTimes times, AtLimits(kernel));
    result.kernels.push_back(std::move(times));
  }
  for (size_t i = 0; i < options_.limits_bytes.size(); ++i)
    result.totals.push_back(Total(result.kernels, i));
  absl::StatusOr<WorkspaceComparison> workspace = Compare(kernels, result.kernels);
  while (absl::IsAborted(workspace.status())) workspace = Compare(kernels, result.kernels);
  RETURN_IF_ERROR(workspace.status());
  result.workspace = *std::move(workspace);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<TimedEngine>> ConvBench::PartsOf(const ConvKernel& kernel,
                                                            DivisionPolicy divisions) {
  ASSIGN_OR_RETURN(const std::vector<Engine> listed, catalog_->Engines(kernel.signature));
  std::vector<TimedEngine> known = MeasuredPartsOf(kernel.signature, listed, divisions,
                                                   /*deterministic=*/false, *timings_);
  const std::string operation = SignatureText(kernel.signature);
  std::erase_if(known, [&](const TimedEngine& timed) {
    return left_out_.contains(std::pair(operation, timed.use()));
  });
  return known;
}

absl::StatusOr<std::optional<TimedConfiguration>> ConvBench::Fastest(const ConvKernel& kernel,
                                                                     DivisionPolicy divisions,
                                                                     int64_t limit_bytes) {
  for (;;) {
    ASSIGN_OR_RETURN(const std::vector<TimedEngine> known, PartsOf(kernel, divisions));
    const std::optional<Configuration> configuration = FastestDivision(
        known, BatchOf(kernel.signature), BatchGranularity(kernel.signature), limit_bytes);
    if (!configuration.has_value()) return std::nullopt;
    absl::StatusOr<TimedConfiguration> timed = Timed(kernel, *configuration);
    if (timed.ok()) return *std::move(timed);
    if (!absl::IsAborted(timed.status())) return timed.status();
  }
}

absl::StatusOr<ConvTimes> ConvBench::AtLimits(const ConvKernel& kernel) {
  ConvTimes times = {.kernel = kernel};
  for (int64_t limit_bytes : options_.limits_bytes) {
    ConvAtLimit at;
    ASSIGN_OR_RETURN(at.undivided, Fastest(kernel, DivisionPolicy::kUndivided, limit_bytes));
    ASSIGN_OR_RETURN(at.divided, Fastest(kernel, options_.divisions, limit_bytes));
    times.at_limits.push_back(std::move(at));
  }
  return times;
}

LimitTotal ConvBench::Total(const std::vector<ConvTimes>& kernels, size_t limit) const {
  LimitTotal total;
  for (const ConvTimes& times : kernels) {
    const ConvAtLimit& at = times.at_limits[limit];
    const int64_t count = times.kernel.count;
    if (!at.divided.has_value()) {
      total.left_out += count;
    } else if (!at.undivided.has_value()) {
      total.only_divided += count;
      AddTo(total.only_divided_seconds, at.divided->seconds, count);
    } else {
      AddTo(total.undivided, at.undivided->seconds, count);
      AddTo(total.divided, at.divided->seconds, count);
    }
  }
  return total;
}

absl::StatusOr<WorkspaceComparison> ConvBench::Compare(const std::vector<ConvKernel>& kernels,
                                                       std::vector<ConvTimes>& times) {
  WorkspaceComparison comparison = {.total_bytes = options_.TotalBytes(kernels),
                                    .kernels = CountOf(kernels)};
  const int64_t most = std::min(comparison.total_bytes, options_.MeasuredWorkspaceBytes(kernels));
  std::vector<std::vector<Configuration>> fronts;
  for (const ConvKernel& kernel : kernels) {
    ASSIGN_OR_RETURN(const std::vector<TimedEngine> known, PartsOf(kernel, options_.divisions));
    fronts.push_back(DesirableConfigurations(known, BatchOf(kernel.signature),
                                             BatchGranularity(kernel.signature), most));
  }
  std::vector<Choice> separate;
  for (size_t k = 0; k < kernels.size(); ++k)
    separate.push_back({k, &kernels[k], FastestThatFits(fronts[k], comparison.limit_bytes())});
  std::vector<Choice> all;
  for (const Choice& choice : separate)
    all.insert(all.end(), static_cast<size_t>(choice.kernel->count), choice);
  ASSIGN_OR_RETURN(const std::vector<WorkspaceSegment> timed, TimeAll(all));
  comparison.separate = SumOf(timed);
  RETURN_IF_ERROR(Divide(kernels, fronts, comparison));
  for (size_t k = 0; k < kernels.size(); ++k) times[k].front = std::move(fronts[k]);
  return comparison;
}

absl::Status ConvBench::Divide(const std::vector<ConvKernel>& kernels,
                               const std::vector<std::vector<Configuration>>& fronts,
                               WorkspaceComparison& comparison) {
  std::vector<std::vector<Configuration>> all;  // equal kernels too
  std::vector<Choice> choices;
  for (size_t k = 0; k < kernels.size(); ++k) {
    if (fronts[k].empty()) return absl::OkStatus();
    all.insert(all.end(), static_cast<size_t>(kernels[k].count), fronts[k]);
    choices.insert(choices.end(), static_cast<size_t>(kernels[k].count), {k, &kernels[k]});
    comparison.variables += kernels[k].count * static_cast<int64_t>(fronts[k].size());
  }
  const auto begin = std::chrono::steady_clock::now();
  const absl::StatusOr<WorkspaceDivision> division = DivideWorkspace(all, comparison.total_bytes);
  comparison.solver_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (absl::IsResourceExhausted(division.status())) return absl::OkStatus();
  RETURN_IF_ERROR(division.status());
  for (size_t i = 0; i < all.size(); ++i) choices[i].configuration = &all[i][division->choice[i]];
  comparison.used_bytes = division->workspace_bytes;
  comparison.gap = division->gap();
  ASSIGN_OR_RETURN(comparison.segments, TimeAll(choices));
  comparison.divided = SumOf(comparison.segments);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<WorkspaceSegment>> ConvBench::TimeAll(
    const std::vector<Choice>& choices) {
  std::vector<WorkspaceSegment> timed;
  for (const Choice& choice : choices) {
    if (choice.configuration == nullptr) return std::vector<WorkspaceSegment>{};
    ASSIGN_OR_RETURN(TimedConfiguration configuration,
                     Timed(*choice.kernel, *choice.configuration));
    timed.push_back({choice.index, std::move(configuration)});
  }
  return timed;
}

absl::StatusOr<TimedConfiguration> ConvBench::Timed(const ConvKernel& kernel,
                                                    const Configuration& configuration) {
  if (Interrupted()) return absl::CancelledError("stopped");
  if (!execute_) return TimedConfiguration{configuration, {configuration.seconds}};
  const std::pair key(SignatureText(kernel.signature), configuration.parts);
  auto known = executed_.find(key);
  if (known == executed_.end()) {
    const absl::StatusOr<double> seconds = execute_(kernel.signature, configuration);
    if (absl::IsAborted(seconds.status()))
      RETURN_IF_ERROR(LeaveOut(kernel, configuration, seconds.status()));
    RETURN_IF_ERROR(seconds.status());
    known = executed_.emplace(key, *seconds).first;
  }
  return TimedConfiguration{configuration, {configuration.seconds, known->second}};
}

absl::Status ConvBench::LeaveOut(const ConvKernel& kernel, const Configuration& configuration,
                                 const absl::Status& reason) {
  ASSIGN_OR_RETURN(const std::vector<EngineUse> failed, FindFailing(kernel, configuration));
  for (const EngineUse& use : failed) {
    left_out_.emplace(SignatureText(kernel.signature), use);
    line_->Say(absl::StrFormat("neap: %s %s: left out '%s' on %d images%s: %s", kernel.name,
                               Name(kernel.signature.phase), use.engine, use.batch,
                               use.adds ? ", adding to gradients" : "", reason.message()));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<EngineUse>> ConvBench::FindFailing(const ConvKernel& kernel,
                                                              const Configuration& configuration) {
  std::vector<EngineUse> all;
  for (const EngineUse& use : configuration.parts) {
    if (std::find(all.begin(), all.end(), use) == all.end()) all.push_back(use);
  }
  if (all.size() == 1) return all;
  std::vector<EngineUse> failing;
  for (const EngineUse& use : all) {
    StepSignature part = WithBatch(kernel.signature, use.batch);
    if (use.adds) part = AddingSignature(std::move(part));
    const absl::Status alone = execute_(part, {.parts = {{use.engine, use.batch}},
                                               .workspace_bytes = configuration.workspace_bytes})
                                   .status();
    if (absl::IsAborted(alone)) {
      failing.push_back(use);
    } else if (!alone.ok()) {
      return alone;
    }
  }
  return failing.empty() ? all : failing;
}

}  // namespace neap::apps

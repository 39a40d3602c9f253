#include "apps/conv_bench.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "apps/interrupt.h"
#include "apps/progress.h"
#include "neap/core/status_macros.h"
#include "neap/layers/conv/timed_parts.h"
#include "neap/layers/conv/workspace_division.h"
#include "neap/layers/signature_text.h"

namespace neap::apps {
namespace {

constexpr int64_t kDefaultBytesPerKernel = 8 * kMiB;  // u-cuDNN's, IV-B
// Of a total, one kernel is not given more: few engines want it, and it must be there to measure.
constexpr int64_t kMostOfTotalBytes = 2 * kGiB;

int64_t CountOf(const std::vector<ConvKernel>& kernels) {
  int64_t count = 0;
  for (const ConvKernel& kernel : kernels) count += kernel.count;
  return count;
}

void AddTo(ConvSeconds& sum, const ConvSeconds& seconds, int64_t times) {
  sum.predicted += seconds.predicted * static_cast<double>(times);
  sum.executed += seconds.executed * static_cast<double>(times);
}

}  // namespace

std::optional<double> ConvAtLimit::speedup() const {
  if (!undivided.has_value() || !divided.has_value()) return std::nullopt;
  return undivided->seconds.executed / divided->seconds.executed;
}

std::optional<double> LimitTotal::speedup() const {
  if (divided.executed <= 0) return std::nullopt;
  return undivided.executed / divided.executed;
}

std::optional<double> WorkspaceComparison::speedup() const {
  if (!separate.has_value() || !divided.has_value()) return std::nullopt;
  return separate->executed / divided->executed;
}

int64_t ConvBenchOptions::TotalBytes(const std::vector<ConvKernel>& kernels) const {
  return total_bytes.value_or(kDefaultBytesPerKernel * CountOf(kernels));
}

int64_t ConvBenchOptions::MeasuredWorkspaceBytes(const std::vector<ConvKernel>& kernels) const {
  const int64_t of_total = std::min(TotalBytes(kernels), kMostOfTotalBytes);
  return std::max(of_total, *std::max_element(limits_bytes.begin(), limits_bytes.end()));
}

absl::StatusOr<ConvBenchResult> ConvBench::Run(const std::vector<ConvKernel>& kernels) {
  WatchForInterrupt();
  const ProgressLine line("execute", "kernels");
  ConvBenchResult result = {.limits_bytes = options_.limits_bytes};
  for (const ConvKernel& kernel : kernels) {
    line.Show(static_cast<int64_t>(result.kernels.size()), static_cast<int64_t>(kernels.size()));
    ASSIGN_OR_RETURN(ConvTimes times, AtLimits(kernel));
    result.kernels.push_back(std::move(times));
  }
  for (size_t i = 0; i < options_.limits_bytes.size(); ++i)
    result.totals.push_back(Total(result.kernels, i));
  ASSIGN_OR_RETURN(result.workspace, Compare(kernels));
  line.Show(static_cast<int64_t>(kernels.size()), static_cast<int64_t>(kernels.size()));
  line.End();
  return result;
}

absl::StatusOr<ConvTimes> ConvBench::AtLimits(const ConvKernel& kernel) {
  ASSIGN_OR_RETURN(const std::vector<Engine> listed, catalog_->Engines(kernel.signature));
  const auto fastest = [&](DivisionPolicy policy, int64_t limit_bytes,
                           std::optional<TimedConfiguration>& result) -> absl::Status {
    const std::vector<TimedEngine> known =
        TimedPartsOf(kernel.signature, listed, policy, *timings_);
    const std::optional<Configuration> configuration =
        FastestDivision(known, BatchOf(kernel.signature), limit_bytes);
    if (!configuration.has_value()) return absl::OkStatus();
    ASSIGN_OR_RETURN(result, Timed(kernel, *configuration));
    return absl::OkStatus();
  };
  ConvTimes times = {.kernel = kernel};
  for (int64_t limit_bytes : options_.limits_bytes) {
    ConvAtLimit at;
    RETURN_IF_ERROR(fastest(DivisionPolicy::kUndivided, limit_bytes, at.undivided));
    RETURN_IF_ERROR(fastest(options_.divisions, limit_bytes, at.divided));
    times.at_limits.push_back(std::move(at));
  }
  return times;
}

LimitTotal ConvBench::Total(const std::vector<ConvTimes>& kernels, size_t limit) const {
  LimitTotal total;
  for (const ConvTimes& times : kernels) {
    const ConvAtLimit& at = times.at_limits[limit];
    const int64_t count = times.kernel.count;
    if (!at.undivided.has_value() || !at.divided.has_value()) {
      total.left_out += count;
      continue;
    }
    AddTo(total.undivided, at.undivided->seconds, count);
    AddTo(total.divided, at.divided->seconds, count);
  }
  return total;
}

absl::StatusOr<WorkspaceComparison> ConvBench::Compare(const std::vector<ConvKernel>& kernels) {
  WorkspaceComparison comparison = {.total_bytes = options_.TotalBytes(kernels),
                                    .kernels = CountOf(kernels)};
  const int64_t most = std::min(comparison.total_bytes, options_.MeasuredWorkspaceBytes(kernels));
  std::vector<std::vector<Configuration>> fronts;
  for (const ConvKernel& kernel : kernels) {
    ASSIGN_OR_RETURN(const std::vector<Engine> listed, catalog_->Engines(kernel.signature));
    const std::vector<TimedEngine> known =
        TimedPartsOf(kernel.signature, listed, options_.divisions, *timings_);
    fronts.push_back(DesirableConfigurations(known, BatchOf(kernel.signature), most));
  }
  std::vector<Choice> separate;
  for (size_t k = 0; k < kernels.size(); ++k)
    separate.push_back({&kernels[k], FastestThatFits(fronts[k], comparison.limit_bytes())});
  std::vector<Choice> all;
  for (const Choice& choice : separate)
    all.insert(all.end(), static_cast<size_t>(choice.kernel->count), choice);
  ASSIGN_OR_RETURN(comparison.separate, Sum(all));
  RETURN_IF_ERROR(Divide(kernels, fronts, comparison));
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
    choices.insert(choices.end(), static_cast<size_t>(kernels[k].count), {&kernels[k]});
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
  ASSIGN_OR_RETURN(comparison.divided, Sum(choices));
  return absl::OkStatus();
}

absl::StatusOr<std::optional<ConvSeconds>> ConvBench::Sum(const std::vector<Choice>& choices) {
  ConvSeconds sum;
  for (const Choice& choice : choices) {
    if (choice.configuration == nullptr) return std::nullopt;
    ASSIGN_OR_RETURN(const TimedConfiguration timed, Timed(*choice.kernel, *choice.configuration));
    AddTo(sum, timed.seconds, 1);
  }
  return sum;
}

absl::StatusOr<TimedConfiguration> ConvBench::Timed(const ConvKernel& kernel,
                                                    const Configuration& configuration) {
  if (Interrupted()) return absl::CancelledError("stopped");
  const std::pair key(SignatureText(kernel.signature), configuration.parts);
  auto known = executed_.find(key);
  if (known == executed_.end()) {
    ASSIGN_OR_RETURN(const double seconds, execute_(kernel.signature, configuration));
    known = executed_.emplace(key, seconds).first;
  }
  return TimedConfiguration{configuration, {configuration.seconds, known->second}};
}

}  // namespace neap::apps

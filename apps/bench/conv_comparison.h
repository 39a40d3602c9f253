// u-cuDNN's comparison (Oyama et al. 2018, section IV), measured: how fast a set of convolutions is
// undivided and in micro-batches, under workspace limits per kernel ("WR") and under one total
// ("WD").
//
// Configurations are chosen by the times of single engines in the profile database, but what is
// compared is their execution time with all parts, additions and launches. Both sides of a
// comparison are measured in the same run. Equal configurations are measured once, so the speedup
// is exactly 1 if dividing changes nothing.
//
// An engine that fails to build or run is left out and the choice is repeated; among a hundred
// engines of a library, one usually fails. An engine that fails only when it adds to the gradients
// of other parts may still run the first part.
//
// Without a device nothing is executed, and the database's predictions are compared.
//
//   ProgressLine line("execute", "kernels");
//   ConvBench bench({.limits_bytes = {8 * kMiB, 64 * kMiB}}, timings, catalog, line, execute);
//   ASSIGN_OR_RETURN(const ConvBenchResult result, bench.Run(kernels));
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "apps/bench/conv_set.h"
#include "apps/cli/progress.h"
#include "neap/core/base/units.h"
#include "neap/core/step/kernel.h"
#include "neap/layers/catalog/kernel_timings.h"
#include "neap/layers/conv/configuration.h"
#include "neap/layers/conv/measured_parts.h"
#include "neap/layers/conv/micro_batching.h"

namespace neap::apps {

// The number of limits that a chart can distinguish.
inline constexpr size_t kMaxLimits = 5;

// The time of one configuration, or a sum.
struct ConvSeconds {
  double predicted = 0;                 // by the database
  std::optional<double> executed = {};  // absent if nothing is executed

  double best_known() const { return executed.value_or(predicted); }
};

struct TimedConfiguration {
  Configuration configuration;
  ConvSeconds seconds;
};

// The fastest configurations under one limit; absent if none fits.
struct ConvAtLimit {
  std::optional<TimedConfiguration> undivided;
  std::optional<TimedConfiguration> divided;

  std::optional<double> speedup() const;
};

struct ConvTimes {
  ConvKernel kernel;
  std::vector<ConvAtLimit> at_limits;  // parallel to the limits
  // Its desirable configurations (u-cuDNN III-C1), among which WD chooses: rising workspace,
  // falling time, as predicted.
  std::vector<Configuration> front = {};
};

// The sums over all kernels, each counted as often as the set has it.
struct LimitTotal {
  // Sums over the kernels that fit both ways, which can be compared.
  ConvSeconds undivided;
  ConvSeconds divided;
  // The kernels that fit only divided, and their time.
  int64_t only_divided = 0;
  ConvSeconds only_divided_seconds;
  int64_t left_out = 0;  // kernels that do not fit

  // Absent if no kernel fits both ways.
  std::optional<double> speedup() const;
};

// The segment of the workspace that WD gives one kernel; equal kernels have a segment each.
struct WorkspaceSegment {
  size_t kernel = 0;  // index into ConvBenchResult::kernels
  TimedConfiguration timed;
};

// One workspace divided among all kernels, against the same bytes for each.
struct WorkspaceComparison {
  int64_t total_bytes = 0;
  int64_t kernels = 0;                  // counting equal ones
  std::optional<ConvSeconds> separate;  // WR under total / kernels
  std::optional<ConvSeconds> divided;   // WD; absent if the kernels do not fit the total
  int64_t variables = 0;                // of the 0-1 program: one per kernel and configuration
  int64_t used_bytes = 0;               // by WD
  double gap = 0;                       // proven
  double solver_seconds = 0;
  std::vector<WorkspaceSegment> segments = {};  // in the order of the kernels

  int64_t limit_bytes() const { return total_bytes / kernels; }
  std::optional<double> speedup() const;
};

// After Ctrl-C it holds only the kernels that were done.
struct ConvBenchResult {
  std::vector<int64_t> limits_bytes;
  int64_t kernels_asked = 0;
  std::vector<ConvTimes> kernels;
  std::vector<LimitTotal> totals;  // parallel to the limits
  std::optional<WorkspaceComparison> workspace = {};
  // Engines that failed to build or run, counted per kernel, batch, and writing or adding.
  int64_t engines_left_out = 0;

  bool is_whole() const { return workspace.has_value(); }
};

struct ConvBenchOptions {
  DivisionPolicy divisions = DivisionPolicy::kPowerOfTwo;
  std::vector<int64_t> limits_bytes;        // per kernel; rising, 1 to kMaxLimits
  std::optional<int64_t> total_bytes = {};  // for all kernels; if absent, 8 MiB times their number

  int64_t TotalBytes(const std::vector<ConvKernel>& kernels) const;
  // The largest workspace worth measuring: of all limits and, as far as it can run, the total.
  int64_t MeasuredWorkspaceBytes(const std::vector<ConvKernel>& kernels) const;
};

// *Ownership*: borrows timings, catalog and line.
class ConvBench {
 public:
  // Returns the seconds that a configuration takes, or ABORTED with the reason if it fails to build
  // or run. If null, nothing is executed.
  using Execute = std::function<absl::StatusOr<double>(const StepSignature&, const Configuration&)>;
  ConvBench(ConvBenchOptions options, const KernelTimings& timings, EngineCatalog& catalog,
            ProgressLine& line, Execute execute)
      : options_(std::move(options)),
        timings_(&timings),
        catalog_(&catalog),
        line_(&line),
        execute_(std::move(execute)) {}

  // Takes at least one kernel. Prints progress on stderr, and a line for each engine that is left
  // out. After Ctrl-C it returns what was done. Errors: those of the catalog and, except ABORTED,
  // of `execute`.
  absl::StatusOr<ConvBenchResult> Run(const std::vector<ConvKernel>& kernels);

 private:
  // How one kernel runs; the configuration is null if it cannot.
  struct Choice {
    size_t index = 0;  // of the kernel
    const ConvKernel* kernel = nullptr;
    const Configuration* configuration = nullptr;
  };
  // CANCELLED after Ctrl-C.
  absl::Status Fill(const std::vector<ConvKernel>& kernels, ConvBenchResult& result);
  // The engines to choose from.
  absl::StatusOr<std::vector<TimedEngine>> PartsOf(const ConvKernel& kernel,
                                                   DivisionPolicy divisions);
  // Empty if nothing fits.
  absl::StatusOr<std::optional<TimedConfiguration>> Fastest(const ConvKernel& kernel,
                                                            DivisionPolicy divisions,
                                                            int64_t limit_bytes);
  absl::StatusOr<ConvTimes> AtLimits(const ConvKernel& kernel);
  LimitTotal Total(const std::vector<ConvTimes>& kernels, size_t limit) const;
  // Also fills in the kernels' fronts.
  absl::StatusOr<WorkspaceComparison> Compare(const std::vector<ConvKernel>& kernels,
                                              std::vector<ConvTimes>& times);
  absl::Status Divide(const std::vector<ConvKernel>& kernels,
                      const std::vector<std::vector<Configuration>>& fronts,
                      WorkspaceComparison& comparison);
  // The times of all choices; empty if one of them cannot run.
  absl::StatusOr<std::vector<WorkspaceSegment>> TimeAll(const std::vector<Choice>& choices);
  // ABORTED if it does not run. Its engines are then left out, and the caller chooses again.
  absl::StatusOr<TimedConfiguration> Timed(const ConvKernel& kernel,
                                           const Configuration& configuration);
  absl::Status LeaveOut(const ConvKernel& kernel, const Configuration& configuration,
                        const absl::Status& reason);
  // The engines of the configuration that fail alone, or all of them if none does.
  absl::StatusOr<std::vector<EngineUse>> FindFailing(const ConvKernel& kernel,
                                                     const Configuration& configuration);

  ConvBenchOptions options_;
  const KernelTimings* timings_;
  EngineCatalog* catalog_;
  ProgressLine* line_;
  Execute execute_;
  // Keyed by operation and batch.
  absl::flat_hash_set<std::pair<std::string, EngineUse>> left_out_;
  // Keyed by operation and configuration.
  absl::flat_hash_map<std::pair<std::string, std::vector<EngineUse>>, double> executed_;
};

}  // namespace neap::apps

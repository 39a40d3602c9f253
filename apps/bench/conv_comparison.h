// u-cuDNN's comparison (Oyama et al. 2018, section IV), measured: how fast a set of convolutions is
// undivided and in micro-batches, under workspace limits per kernel ("WR") and under one total
// ("WD").
//
// Configurations are chosen by the times of single engines in the profile database, and what counts
// is how long they take as they are executed: all parts, additions and launches in one go. Both
// sides of a comparison are measured in this run. The same configuration is measured once, so that
// where dividing changes nothing the speedup is 1 and no noise.
//
// An engine that does not build or run is left out, and the choice made again: a library that lists
// a hundred of them has one that fails. One that fails only where it adds to the gradients of other
// parts may still be the first part.
//
// Without a device the database's times are all there is: nothing is executed then, and predictions
// are compared.
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

// As many limits as a chart can tell apart.
inline constexpr size_t kMostLimits = 5;

// Of a configuration, or summed.
struct ConvSeconds {
  double predicted = 0;                 // by the database
  std::optional<double> executed = {};  // absent where nothing is

  double best_known() const { return executed.value_or(predicted); }
};

struct TimedConfiguration {
  Configuration configuration;
  ConvSeconds seconds;
};

// The best under one limit; absent where nothing fits.
struct ConvAtLimit {
  std::optional<TimedConfiguration> undivided;
  std::optional<TimedConfiguration> divided;

  std::optional<double> speedup() const;
};

struct ConvTimes {
  ConvKernel kernel;
  std::vector<ConvAtLimit> at_limits;  // parallel to the limits
};

// Of all kernels, each as often as the set has it.
struct LimitTotal {
  // Of kernels that fit both ways: what there is to compare.
  ConvSeconds undivided;
  ConvSeconds divided;
  // Kernels that fit divided alone, and their time.
  int64_t only_divided = 0;
  ConvSeconds only_divided_seconds;
  int64_t left_out = 0;  // kernels where nothing fits

  // Absent where none fits both ways.
  std::optional<double> speedup() const;
};

// One workspace divided among all kernels, against the same bytes for each.
struct WorkspaceComparison {
  int64_t total_bytes = 0;
  int64_t kernels = 0;                  // equal ones too
  std::optional<ConvSeconds> separate;  // WR under total / kernels
  std::optional<ConvSeconds> divided;   // WD; absent where the kernels do not fit the total
  int64_t variables = 0;                // of the 0-1 program: a kernel's configuration each
  int64_t used_bytes = 0;               // by WD
  double gap = 0;                       // proven
  double solver_seconds = 0;

  int64_t limit_bytes() const { return total_bytes / kernels; }
  std::optional<double> speedup() const;
};

// Until Ctrl-C: the kernels that were done and, of the rest, nothing.
struct ConvBenchResult {
  std::vector<int64_t> limits_bytes;
  int64_t kernels_asked = 0;
  std::vector<ConvTimes> kernels;
  std::vector<LimitTotal> totals;  // parallel to the limits
  std::optional<WorkspaceComparison> workspace = {};
  // They did not build or run: of a kernel and a batch each, writing or adding to gradients.
  int64_t engines_left_out = 0;

  bool is_whole() const { return workspace.has_value(); }
};

struct ConvBenchOptions {
  DivisionPolicy divisions = DivisionPolicy::kPowerOfTwo;
  std::vector<int64_t> limits_bytes;        // per kernel; rising, 1 to kMostLimits
  std::optional<int64_t> total_bytes = {};  // of all kernels; 8 MiB for each where absent

  int64_t TotalBytes(const std::vector<ConvKernel>& kernels) const;
  // All limits and, as far as that can be executed, the total: what is worth measuring.
  int64_t MeasuredWorkspaceBytes(const std::vector<ConvKernel>& kernels) const;
};

// *Ownership*: borrows timings, catalog and line.
class ConvBench {
 public:
  // Seconds that a configuration takes; null: nothing is executed. ABORTED, with the reason, where
  // it does not build or run.
  using Execute = std::function<absl::StatusOr<double>(const StepSignature&, const Configuration&)>;
  ConvBench(ConvBenchOptions options, const KernelTimings& timings, EngineCatalog& catalog,
            ProgressLine& line, Execute execute)
      : options_(std::move(options)),
        timings_(&timings),
        catalog_(&catalog),
        line_(&line),
        execute_(std::move(execute)) {}

  // At least one kernel. On stderr its progress, and a line for each engine that is left out. After
  // Ctrl-C no more than what was done. Errors: of the catalog; of execution but ABORTED.
  absl::StatusOr<ConvBenchResult> Run(const std::vector<ConvKernel>& kernels);

 private:
  // How one kernel is to run; null: it cannot.
  struct Choice {
    const ConvKernel* kernel = nullptr;
    const Configuration* configuration = nullptr;
  };
  // CANCELLED after Ctrl-C.
  absl::Status Fill(const std::vector<ConvKernel>& kernels, ConvBenchResult& result);
  // What there is to choose from.
  absl::StatusOr<std::vector<TimedEngine>> PartsOf(const ConvKernel& kernel,
                                                   DivisionPolicy divisions);
  // Empty where nothing fits.
  absl::StatusOr<std::optional<TimedConfiguration>> Fastest(const ConvKernel& kernel,
                                                            DivisionPolicy divisions,
                                                            int64_t limit_bytes);
  absl::StatusOr<ConvTimes> AtLimits(const ConvKernel& kernel);
  LimitTotal Total(const std::vector<ConvTimes>& kernels, size_t limit) const;
  absl::StatusOr<WorkspaceComparison> Compare(const std::vector<ConvKernel>& kernels);
  absl::Status Divide(const std::vector<ConvKernel>& kernels,
                      const std::vector<std::vector<Configuration>>& fronts,
                      WorkspaceComparison& comparison);
  absl::StatusOr<std::optional<ConvSeconds>> Sum(const std::vector<Choice>& choices);
  // ABORTED where it does not run: its engines are left out then, so choose again.
  absl::StatusOr<TimedConfiguration> Timed(const ConvKernel& kernel,
                                           const Configuration& configuration);
  absl::Status LeaveOut(const ConvKernel& kernel, const Configuration& configuration,
                        const absl::Status& reason);
  // Those of its engines that fail alone; where none does, all.
  absl::StatusOr<std::vector<EngineUse>> FindFailing(const ConvKernel& kernel,
                                                     const Configuration& configuration);

  ConvBenchOptions options_;
  const KernelTimings* timings_;
  EngineCatalog* catalog_;
  ProgressLine* line_;
  Execute execute_;
  // By operation and batch.
  absl::flat_hash_set<std::pair<std::string, EngineUse>> left_out_;
  // By operation and configuration.
  absl::flat_hash_map<std::pair<std::string, std::vector<EngineUse>>, double> executed_;
};

}  // namespace neap::apps

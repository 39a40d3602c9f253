// The engine table: the configurations in which each step can be run, in order of preference.
//
// A configuration is an engine, or for convolutions a list of engines for parts of the batch
// (layers/conv/configuration.h). For each step the table keeps the Pareto front of time against
// workspace, by measured or estimated times (layers/conv/estimated_parts.h), so that the fastest
// configuration is known for any number of free bytes (SuperNeurons 3.5, u-cuDNN's WR). In strict
// mode it has the library's order.
//
//   workspace left    12 MiB                     -> "winograd" x 64, "winograd" x 64
//                      0                         -> "direct" x 128
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "neap/core/base/units.h"
#include "neap/core/device/device.h"
#include "neap/core/program/lifetimes.h"
#include "neap/core/program/program.h"
#include "neap/core/step/kernel.h"
#include "neap/layers/conv/configuration.h"
#include "neap/memory/engines/kernel_options.h"
#include "neap/recompute/rebuild_prices.h"

namespace neap {

// The most workspace of an engine that a step has under every budget, in strict mode and where it
// is rerun. Without strict mode, a rerun may have as much more as makes it no larger than the
// network's largest step.
inline constexpr int64_t kStrictWorkspaceBytes = 64 * kMiB;
// The same in strict mode, if all engines that would do with less say themselves that they take so
// many times as long as one that needs no more than this (Engine::slowdown).
inline constexpr int64_t kStrictMostBytes = 512 * kMiB;
inline constexpr double kStrictMuchSlower = 1.5;

struct StepConfigurations {
  // In order of preference, never empty; workspaces include the scratch that the step itself needs.
  std::vector<Configuration> configurations;
  // There is only one configuration, and its engine has no name of its own: a plan names none.
  bool only_one = false;
};

// A run takes its most preferred configuration that fits the bytes left. A step that is rerun has
// only one configuration, so that both runs give the same bits; which steps those are depends on
// the order of runs:
//
//   ASSIGN_OR_RETURN(EngineTable engines, EngineTable::List(program, {}, strict, device, catalog));
//   RETURN_IF_ERROR(engines.AddReruns(program, runs, catalog));
//   const EngineTable of_order = engines.For(runs);
//
// *Ownership*: copies share their lists.
class EngineTable {
 public:
  // Lists all steps. Engines that were not measured are deterministic ones; with `strict` every
  // step has one engine, whatever the budget. Errors: those of the catalog and the timings,
  // with the step's name; FAILED_PRECONDITION if a step has no engine left.
  static absl::StatusOr<EngineTable> List(const Program& program, const KernelOptions& options,
                                          bool strict, const DeviceDescription& device,
                                          EngineCatalog& catalog);
  // Lists the reruns in `runs`. Errors: as List(); FAILED_PRECONDITION for a step that no engine
  // runs twice with the same bits.
  absl::Status AddReruns(const Program& program, const ComputeSequence& runs,
                         EngineCatalog& catalog);
  // The table for an order of runs whose reruns have been added: it has one configuration for each
  // step that is rerun.
  EngineTable For(const ComputeSequence& runs) const;

  // Adds the reruns of all forward steps, and returns what they cost. The time of a rerun is
  // infinite where AddReruns() would be a FAILED_PRECONDITION. Errors: those of the catalog and the
  // timings.
  absl::StatusOr<RebuildPrices> PriceReruns(const Program& program, EngineCatalog& catalog);

  // By StepId: the least time of a step's first run, whether it is rerun or not.
  std::vector<double> LeastRunSeconds() const;

  const StepConfigurations& Of(const Run& run) const {
    const size_t step = run.step.index();
    if (run.recompute) return *again_[step].rerun;
    return runs_again_[step] ? *again_[step].first : *first_[step];
  }
  // The least time of the run's configurations, in seconds.
  double LeastSeconds(const Run& run) const;
  // The configuration with the least workspace.
  const Configuration& Smallest(const Run& run) const;
  // The most preferred configuration that fits, or the smallest if none does.
  const Configuration& FirstThatFits(const Run& run, int64_t free_bytes) const;

 private:
  using Shared = std::shared_ptr<const StepConfigurations>;
  // The configurations of a step that is rerun: of its first run, and of the others.
  struct Again {
    Shared first, rerun;
  };
  using ListRun = absl::FunctionRef<absl::StatusOr<StepConfigurations>(const Run& run)>;
  // Adds neither if `list` fails for one of them.
  absl::Status AddRerun(const Step& step, ListRun list);

  KernelOptions options_;
  bool strict_ = false;
  int64_t largest_step_bytes_ = 0;  // of operands
  DeviceDescription device_;
  std::vector<Shared> first_;     // by StepId: of a step that is not rerun
  std::vector<Again> again_;      // by StepId: null if no rerun was added
  std::vector<bool> runs_again_;  // by StepId
};

}  // namespace neap

// The ways in which each step may be run, and which of them a plan takes.
//
// A way is a configuration: an engine, or for convolutions a list of engines for parts of the batch
// (layers/conv/configuration.h). Where times were measured they decide: of each step the Pareto
// front of time against workspace is kept, so that whatever bytes are left at the step, the fastest
// that fits is known (SuperNeurons 3.5, u-cuDNN's WR). Elsewhere the library's order does, and the
// time is the cost model's.
//
//   workspace left    12 MiB                     -> {"winograd" x 64, "winograd" x 64}
//                      0                         -> {"direct" x 128}
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/base/units.h"
#include "neap/core/device/device.h"
#include "neap/core/program/lifetimes.h"
#include "neap/core/program/program.h"
#include "neap/core/step/kernel.h"
#include "neap/layers/conv/configuration.h"
#include "neap/memory/engines/kernel_options.h"

namespace neap {

// Of the engines that strict mode may take.
inline constexpr int64_t kStrictWorkspaceBytes = 64 * kMiB;

struct StepConfigurations {
  // In order of preference, never empty; workspaces include the scratch that the step itself needs.
  std::vector<Configuration> configurations;
  // There is but one way, by an engine without a name of its own, so a plan names none.
  bool only_one = false;
};

// Where the bytes left decide: the first in order of preference that fits. A step that runs twice
// has one configuration: the same one makes the same bits, and must fit both times.
class EngineTable {
 public:
  // Without measured times deterministic engines only; in strict mode the one that strict mode
  // uses. Errors: those of the catalog and the timings, naming the step; FAILED_PRECONDITION where
  // no engine is left.
  static absl::StatusOr<EngineTable> List(const Program& program, const KernelOptions& options,
                                          bool strict, const DeviceDescription& device,
                                          EngineCatalog& catalog);
  // Lists those of the reruns in `runs`.
  absl::Status AddReruns(const Program& program, const ComputeSequence& runs,
                         EngineCatalog& catalog);

  const StepConfigurations& Of(const Run& run) const {
    return run.recompute ? again_[run.step.index()] : first_[run.step.index()];
  }
  // That with the least workspace.
  const Configuration& Smallest(const Run& run) const;
  // The smallest where none does.
  const Configuration& FirstThatFits(const Run& run, int64_t free_bytes) const;

 private:
  KernelOptions options_;
  bool strict_ = false;
  DeviceDescription device_;
  std::vector<StepConfigurations> first_;  // by StepId
  std::vector<StepConfigurations> again_;  // by StepId: of reruns
  std::vector<bool> runs_again_;           // by StepId
};

}  // namespace neap

// Which kernels a plan would gain from having measured, the most worthwhile first.
//
// A plan depends on the times of the kernels that it runs, and on those of the kernels that it
// could run instead. To know the first makes predictions right; to know the others may find a
// faster plan. What a measurement is worth is the share of the iteration that it concerns, times
// how unsure it is:
//
//   runs in the plan, by the cost model    count * seconds * 0.3
//   runs in the plan, interpolated         count * seconds * 0.1
//   another configuration that fits        the same, times 0.2
//   the library's next engines             count * seconds * 0.06, 0.06, ... by place
//
// The library's next engines are the first of each family (layers/conv/engine_losses.h), and a few
// of those families with other knobs, which are worth less: a library lists many of the family that
// it recommends, and the fastest may be of another one. What is expected to take more than three
// times as long as the fastest that fits is not worth measuring, unless the plan runs it: cuDNN
// lists engines that take thousands of times as long. Those that use the matrix units may be
// expected to take ten times as long.
//
// A kernel of several of these sorts is worth their sum: the plan's own engine is also one of the
// configurations that fit, and mostly the library's first. Measuring it costs the time of making
// the kernel and of some runs. Of a library's engine whose code the process has not used yet, the
// code is loaded first, which takes longer than all of its runs; some engines are compiled for each
// kernel, as others of their family have shown (MadeKernels). Where workspace is short, the
// configurations that fit run parts of the batch (layers/conv/estimated_parts.h), whose times are
// thereby measured first.
//
//   ASSIGN_OR_RETURN(std::vector<KernelDemand> demands,
//                    DemandsOf(program, result.plan, {.timings = timings}, device, catalog));
//   demands.front().signature;  // of a part of the batch, if its engine is for a part
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "neap/core/device/device.h"
#include "neap/core/plan/plan.h"
#include "neap/core/program/program.h"
#include "neap/core/step/kernel.h"
#include "neap/memory/engines/kernel_options.h"

namespace neap {

struct KernelDemand {
  StepSignature signature;  // with the batch of the part
  Engine engine;
  double worth_seconds = 0;  // of an iteration
  double run_seconds = 0;    // what one run probably takes
  int64_t runs = 0;          // in an iteration, of it or of what the plan runs instead
  bool is_in_plan = false;   // the plan runs it: a session loads its code anyway
};

// The kernels that a process has made so far.
class MadeKernels {
 public:
  void Add(const std::string& engine, double making_seconds);
  bool IsLoaded(const std::string& engine) const { return engines_.contains(engine); }
  // The least time that a kernel of the engine's family took; 0 if none was made.
  double LeastSeconds(const std::string& engine) const;

 private:
  absl::flat_hash_set<std::string> engines_;
  absl::flat_hash_map<std::string, double> by_family_;
};

// In falling order of worth over cost. `kernels.timings` are what is known; failed engines are not
// demanded. Collectives and the paper's accounting have no kernels. Errors: the catalog's.
absl::StatusOr<std::vector<KernelDemand>> DemandsOf(const Program& program, const Plan& plan,
                                                    const KernelOptions& kernels,
                                                    const DeviceDescription& device,
                                                    EngineCatalog& catalog,
                                                    const MadeKernels& made = {});

// The seconds that it takes to measure the kernel: to load and make it, and to run it several
// times.
double MeasuringSeconds(const KernelDemand& demand, const MadeKernels& made);

}  // namespace neap

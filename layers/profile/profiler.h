// Measures how long the kernels of a network's steps take, engine by engine, and keeps the times in
// a profile database.
//
// What a plan can choose from is worth knowing before it is made: every engine of every step and,
// for convolutions, on parts of the batch too (layers/profile/profile_steps.h). A kernel is
// measured by itself on operands of its own (layers/profile/kernel_timer.h). An engine that twice
// is far slower than another that would do in its place is timed no more: nobody will take it. Nor
// is a last resort, ten times as slow as any other. And on parts of odd sizes, which DivisionPolicy
// kAll has by the hundred, only engines are measured that come near the fastest on the powers of
// two around; as engines that add their gradients to those of other parts, only such as come near
// the fastest at writing them. What would do in an engine's place wants no more workspace, and
// gives the same bits every time if that engine does.
//
//   ASSIGN_OR_RETURN(Profiler profiler,
//                    Profiler::Create(KernelsOf(program), {}, device, database));
//   while (profiler.done() < profiler.total()) {
//     RETURN_IF_ERROR(profiler.MeasureNext());
//     ShowProgress(profiler.done(), profiler.total());
//   }
//
// What the database has is not measured again, so a profile that was interrupted goes on where it
// was. *Ownership*: borrows device and database. *Threads*: one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/core/base/units.h"
#include "neap/core/device/device.h"
#include "neap/layers/conv/micro_batching.h"
#include "neap/layers/profile/kernel_timer.h"
#include "neap/layers/profile/profile_database.h"

namespace neap {

struct ProfileOptions {
  DivisionPolicy divisions = DivisionPolicy::kPowerOfTwo;  // which parts of a batch are measured
  int64_t workspace_limit_bytes = 2 * kGiB;                // engines that want more are left out
  int64_t samples = 7;                                     // behind a median, at least
  bool again = false;                                      // measure what was measured before, too
  bool retry_failed = false;                               // and what failed before
};

// Of a measurement (interquartile range / median): beyond it, two engines may be in the wrong
// order.
inline constexpr double kWideSpread = 0.1;

class Profiler {
 public:
  // Of `steps`, and of the parts of those that can be divided. Errors: RESOURCE_EXHAUSTED when the
  // device has not the memory for the largest step's operands and a workspace.
  static absl::StatusOr<Profiler> Create(const std::vector<StepSignature>& steps,
                                         const ProfileOptions& options, Device& device,
                                         ProfileDatabase& database);

  // Steps that differ, each with each batch that is measured.
  int64_t total() const { return static_cast<int64_t>(steps_.size()); }
  int64_t done() const { return done_; }
  // Of all engines of the steps done: timed now, found in the database, or found not to run.
  int64_t measured() const { return measured_; }
  int64_t known() const { return known_; }
  int64_t failed() const { return failed_; }
  // Of those timed now, with a spread above kWideSpread; of one sample there is none.
  int64_t wide_spreads() const { return wide_spreads_; }

  // Every engine of the next step. Errors: of the device and the database. An engine that does not
  // build or run is written down as such, and is no error unless the device is lost with it: the
  // next profile leaves it out. OUT_OF_RANGE when all are done. CANCELLED where `go_on`, asked
  // before each engine and each sample, says no: the step is not done, and the engines that were
  // measured are kept.
  absl::Status MeasureNext(const std::function<bool()>& go_on = nullptr);

  // How long a configuration takes as it is executed, all parts and additions. Not kept. Errors:
  // INVALID_ARGUMENT where the operands are larger than what is profiled; ABORTED, with the reason,
  // where it wants more workspace than there is, does not build or does not run; the device's where
  // that is lost with it.
  absl::StatusOr<double> MedianSeconds(const StepSignature& signature,
                                       const Configuration& configuration);

 private:
  Profiler(const ProfileOptions& options, Device& device, ProfileDatabase& database)
      : options_(options),
        device_(&device),
        database_(&database),
        timer_(device, options.samples) {}
  absl::Status Reserve();
  // Puts numbers into all operands, zeros into those that are integers.
  absl::StatusOr<std::vector<void*>> PlaceOperands(const StepSignature& signature);
  // Of an engine that does not build or run, the reason.
  absl::StatusOr<Measurement> Measure(const StepSignature& signature, const Engine& engine,
                                      absl::Span<void* const> operands, double hopeless_seconds,
                                      const std::function<bool()>& go_on);
  absl::StatusOr<double> ExecutedSeconds(const StepSignature& signature,
                                         const Configuration& configuration);
  // The engines to measure: those within the limit and, on a part of an odd size, promising.
  absl::StatusOr<std::vector<Engine>> EnginesFor(const StepSignature& step,
                                                 const std::string& operation);

  ProfileOptions options_;
  Device* device_;
  ProfileDatabase* database_;
  KernelTimer timer_;
  std::vector<StepSignature> steps_;
  absl::flat_hash_set<std::pair<std::string, int64_t>> wholes_;  // operations and batches, no parts
  Buffer arena_;                                                 // operands, then the workspace
  int64_t operand_bytes_ = 0;
  Buffer numbers_, zeros_;  // on the host, copied over the operands
  int64_t done_ = 0, measured_ = 0, known_ = 0, failed_ = 0, wide_spreads_ = 0;
};

}  // namespace neap

// Measures how long the kernels of a network's steps take, engine by engine, and stores the times
// in a profile database.
//
// It measures everything that a plan can choose from: every engine of every step and, for
// convolutions, also of parts of the batch (layers/profile/profile_steps.h). Each kernel is timed
// in isolation on operands of its own (layers/profile/kernel_timer.h). Five rules save time:
// * Timing stops early for an engine that two samples show to be over 3x slower than one that could
//   replace it (same or less workspace, at least as deterministic, not adding in fp16 unless it
//   does), or 10x slower than any.
// * An engine that took over 100x as long as one that could replace it, in two operations of a kind
//   (a layer's phase, types and layouts), is not run on a third. Libraries list a plain engine as
//   the last resort, which takes seconds on the matrix units' layouts: most of a profile's time.
// * Where such a run would take over 0.2 s, because the batch is large, an engine that has not yet
//   run well in a step of the kind runs on 1/64 of the batch first, and is not run on the whole if
//   that predicts over 100x.
// * Parts of odd sizes, of which DivisionPolicy::kAll has hundreds, are measured only with engines
//   that are near the fastest on the neighbouring powers of two.
// * Adding gradients to those of other parts is measured only with engines that are near the
//   fastest at writing them.
//
//   ASSIGN_OR_RETURN(Profiler profiler,
//                    Profiler::Create(KernelsOf(program), {}, device, database));
//   while (profiler.done() < profiler.total()) {
//     RETURN_IF_ERROR(profiler.MeasureNext());
//     ShowProgress(profiler.done(), profiler.total());
//   }
//
// Engines that the database already has are not measured again, so an interrupted profile resumes
// where it stopped. *Ownership*: borrows device and database. *Threads*: one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/core/base/units.h"
#include "neap/core/device/device.h"
#include "neap/layers/conv/micro_batching.h"
#include "neap/layers/profile/kernel_bench.h"
#include "neap/layers/profile/profile_database.h"

namespace neap {

struct ProfileOptions {
  DivisionPolicy divisions = DivisionPolicy::kPowerOfTwo;  // the parts of a batch that are measured
  int64_t workspace_limit_bytes = 2 * kGiB;                // engines that need more are left out
  int64_t samples = 7;                                     // minimum per median
  // For each step only so many engines that the library recommends are measured, and those that
  // need less workspace than all that it recommends before them (FirstEngines()).
  std::optional<int64_t> engines = {};
  bool again = false;         // repeat existing measurements
  bool retry_failed = false;  // repeat existing failures
};

// A spread (interquartile range / median) beyond which two engines may be in the wrong order.
inline constexpr double kWideSpread = 0.1;

class Profiler {
 public:
  // Measures `steps`, and the parts of those that are divisible. Errors: RESOURCE_EXHAUSTED if the
  // device does not have the memory for the largest step's operands and a workspace.
  static absl::StatusOr<Profiler> Create(const std::vector<StepSignature>& steps,
                                         const ProfileOptions& options, Device& device,
                                         ProfileDatabase& database);

  // Measures only `share` of `steps` and their parts, in its order: the kernels that
  // DivideKernels() (layers/profile/profile_shares.h) gives this device. Errors: those of Create().
  static absl::StatusOr<Profiler> CreateForShare(const std::vector<StepSignature>& steps,
                                                 std::vector<StepSignature> share,
                                                 const ProfileOptions& options, Device& device,
                                                 ProfileDatabase& database);

  // Numbers of distinct steps, counting each batch of a step.
  int64_t total() const { return static_cast<int64_t>(steps_.size()); }
  int64_t done() const { return done_; }
  // Numbers of engines of the completed steps: timed now, found in the database, or failed.
  int64_t measured() const { return measured_; }
  int64_t known() const { return known_; }
  int64_t failed() const { return failed_; }
  // Number of engines of the completed steps that the second and third rules left out.
  int64_t left_out() const { return left_out_; }
  // Number of engines timed now with a spread above kWideSpread.
  int64_t wide_spreads() const { return wide_spreads_; }

  // Measures every engine of the next step. Errors: those of the device and the database;
  // OUT_OF_RANGE if all steps are done; CANCELLED if `go_on`, called before each engine and each
  // sample, returns false: the step then stays undone, but its engines measured so far are kept. An
  // engine that does not build or run is recorded as failed, which the next profile skips. This is
  // an error only if it makes the device fail.
  absl::Status MeasureNext(const std::function<bool()>& go_on = nullptr);

  // The time of a whole configuration, with all parts and additions, which is not recorded. Errors:
  // INVALID_ARGUMENT if the operands are larger than those of the profiled steps; ABORTED, with the
  // reason, if it needs more workspace than is available, does not build or does not run; the
  // device's errors if the device fails.
  absl::StatusOr<double> MedianSeconds(const StepSignature& signature,
                                       const Configuration& configuration);

 private:
  Profiler(const ProfileOptions& options, Device& device, ProfileDatabase& database)
      : options_(options), device_(&device), database_(&database) {}
  absl::Status Reserve();
  // The engines to measure: those within the workspace limit that the rules above do not exclude.
  absl::StatusOr<std::vector<Engine>> EnginesFor(const StepSignature& step,
                                                 const std::string& operation);
  // Whether the second rule excludes the engine, which may be replaced by those of `rows`; and what
  // the rule learns from all measurements of a step of `operation`.
  bool IsCrawling(const StepSignature& step, const Engine& engine,
                  const std::vector<Measurement>& rows) const;
  void NoteCrawling(const StepSignature& step, const std::string& operation,
                    const std::vector<Measurement>& rows);
  // Whether the third rule excludes the engine.
  absl::StatusOr<bool> CrawlsOnPart(const StepSignature& step, const Engine& engine,
                                    const std::vector<Measurement>& rows,
                                    const std::function<bool()>& go_on);

  ProfileOptions options_;
  Device* device_;
  ProfileDatabase* database_;
  std::vector<StepSignature> steps_;
  absl::flat_hash_set<std::pair<std::string, int64_t>> wholes_;  // operations with whole batches
  // The operations in which an engine crawled, by kind of step and engine.
  absl::flat_hash_map<std::pair<std::string, std::string>, absl::flat_hash_set<std::string>>
      crawled_;
  // Kinds of step and engines that did not crawl in one of the kind.
  absl::flat_hash_set<std::pair<std::string, std::string>> ran_well_;
  std::optional<KernelBench> bench_;  // always set once Create() returns
  int64_t operand_bytes_ = 0;         // of a bench for the largest step, without workspace
  int64_t done_ = 0, measured_ = 0, known_ = 0, failed_ = 0, left_out_ = 0, wide_spreads_ = 0;
};

}  // namespace neap

// Measures the kernels on which a session's plan depends, before its first step (SuperNeurons 3.5
// and u-cuDNN III-D do this in the first iteration; here it is bounded and reported).
//
// A plan is only as good as its kernel times, and few users measure a network before the first run.
// So a session does: it plans by what is known, measures the kernels that matter most
// (memory/measuring/kernel_demand.h) within some seconds and within the bytes of the budget, and
// plans again: twice by a search that ends early (PlannerOptions::quick), then by a whole one. The
// times go into the database, so the next session measures nothing. What was not reached is
// estimated from what was (layers/conv/estimated_parts.h).
//
//   seconds          0                      7.5                               7.5             10
//            | quick | conv2 f, conv1 b, ... | quick | what is new, up to 7.5 s | plan | the rest |
//
//   MeasuringOptions options = {.seconds = 10};
//   ASSIGN_OR_RETURN(MeasuringReport report,
//                    MeasureKernels(lower, planning, {.budget_bytes = 12 * kGiB}, device, database,
//                                   options));
//   report.measured;  // engines
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/core/device/communicator.h"
#include "neap/core/device/device.h"
#include "neap/core/plan/planner.h"
#include "neap/layers/profile/profile_database.h"
#include "neap/memory/planner_options.h"

namespace neap {

inline constexpr double kDefaultMeasuringSeconds = 10;

struct MeasuringReport {
  int64_t measured = 0;     // engines, on this rank
  int64_t failed = 0;       // that did not build or run
  int64_t from_others = 0;  // measured by other ranks
  int64_t left = 0;         // kernels that would have been worth measuring
  double seconds = 0;       // that all of it took, without planning
  double planned_ms = 0;    // predicted for an iteration by the first, quick plan
  double replanned_ms = 0;  // by the last plan so far
  // The last plan, if what was measured after it hardly changes it (memory/known_plan.h). Absent
  // also among ranks, which tell each other times until the end.
  std::optional<ChosenProgram> chosen = {};
};

struct MeasuringOptions {
  double seconds = kDefaultMeasuringSeconds;  // at most, without planning; 0: nothing is measured
  int64_t samples = 3;                        // minimum per median
  // Times that come with the library count as known (layers/profile/installed_timings.h): for
  // callers that plan by them, too.
  bool with_installed_times = false;
  // Called after each kernel with what was done so far; measuring ends if it returns false.
  std::function<bool(const MeasuringReport&)> on_progress = nullptr;
  // Ranks measure different kernels and tell each other the times. All call MeasureKernels() with
  // the same options then. Null: alone. *Ownership*: borrowed.
  TextExchange* ranks = nullptr;
};

// `lower`, `planning` and `request` are those of the session (Planner::Choose()); `planning` has
// the timings of `database`, if there are any. Measures nothing in strict mode, whose engines do
// not depend on times, and on a device without kernels to choose from, the CPU. Errors: those of
// the device, and of the ranks. A plan that is refused is none: nothing is measured then, and the
// session says why. A database that cannot be written, and a device without memory for more than
// the plan, only end the measuring.
absl::StatusOr<MeasuringReport> MeasureKernels(LowerWith lower, const PlannerOptions& planning,
                                               const PlanRequest& request, Device& device,
                                               ProfileDatabase& database,
                                               const MeasuringOptions& options);

// Why the ranks do not measure: a rank that did not take part would leave the others waiting. Empty
// if all of them have a database; otherwise the message of the first that has none, after its
// number on the others. `database` is the status of this rank's. To be called by all ranks; null:
// alone. Errors: those of the exchange.
absl::StatusOr<std::string> ReasonNotToMeasure(const absl::Status& database, TextExchange* ranks);

}  // namespace neap

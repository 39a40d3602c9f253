// The search and trial run of `neap peak-batch` and `neap peak-depth` with one choice of the
// program.
//
// Sizes are only looked at (apps/peak/size_search.h). The size that is found at last is planned in
// full and verified, and with --run it is trained on the device. Where the smallest plan might take
// more pinned memory than the host budget, a size is planned as soon as it is found. If its plan
// does take more, the search starts again with probes that plan in full, since only a full plan
// shows how much pinned memory a size takes.
//
// With --keep, the size found is only the upper end: below it lies the largest batch that keeps a
// part of its speed. The speed of a batch in the budget is compared with that of the same network
// at the same batch without a budget, under policy liveness, where nothing is moved and nothing is
// computed again. The batch has to be the same, because larger batches use a device better: against
// a fixed smaller batch, a budget that costs a fifth of the time could seem to cost nothing. The
// part that is lost is then what the lack of memory costs, and nothing else.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "apps/cli/planning_flags.h"
#include "apps/peak/peak_search.h"
#include "apps/peak/size_search.h"
#include "apps/peak/sized_programs.h"
#include "apps/train/trial_run.h"
#include "neap/memory/planner.h"

namespace neap::apps {

struct PeakRun {
  TrialRun trial = {};
  std::optional<int64_t> depth = {};
  int64_t refused = 0;  // larger sizes that did not fit the device
};

// The speed of a batch in the budget, and without one.
struct KeptSpeed {
  double images_per_second = 0;
  double unlimited_images_per_second = 0;
  bool is_unlimited_measured = false;  // else predicted

  double Percent() const { return 100 * images_per_second / unlimited_images_per_second; }
};

struct PeakResult {
  std::string what;  // Growth::what
  bool is_planned = false;
  PlanResult planned = {};          // if it is planned, as is all below but the search
  NaturalPeaks natural = {};        // of the whole batch, on the device alone, without workspaces
  std::string measured_with;        // library versions; empty: no measured times were used
  std::string placeholder_engines;  // PlaceholderEngines(): empty if all engines are known
  int64_t batch = 0;
  std::optional<int64_t> depth = {};
  PeakSearch search = {};
  PeakEffort effort = {};
  double plan_ms = 0;                  // for planning and verifying the result
  bool at_most_size = false;           // larger sizes are refused under any budget
  bool by_host = false;                // larger sizes fit the budget but not the host budget
  bool by_speed = false;               // larger sizes fit but do not keep their speed
  std::optional<KeptSpeed> kept = {};  // with --keep: predicted
  std::optional<KeptSpeed> measured_kept = {};  // with --keep and --run
  std::optional<PeakRun> run = {};
  std::optional<PeakRun> compared = {};
};

// The search with one choice of the program.
class PeakFinder {
 public:
  // *Ownership*: borrows what the case borrows.
  PeakFinder(const PeakCase& peak, const ProgramChoice& choice)
      : peak_(peak), choice_(choice), programs_(peak, choice), sizes_(peak_, programs_) {}
  PeakFinder(const PeakFinder&) = delete;
  PeakFinder& operator=(const PeakFinder&) = delete;

  // The smallest size: 1, or 2 if batch norms would have one value per channel.
  int64_t Least() const;
  // Whether the planner may run the network in so many sub-batches. Its images may be coupled.
  absl::StatusOr<bool> MaySplit() const;
  // Whether the planner may keep the parameters on the host.
  absl::StatusOr<bool> MayOffload() const;
  // Tries sizes that are larger than `from` by an eighth, twice that, and so on. `largest` is the
  // last that was reached, or `from`.
  absl::StatusOr<PeakSearch> Grow(int64_t from) const;
  // Whether a size fits and, with --keep, keeps its speed.
  absl::StatusOr<bool> Reaches(int64_t n) const;
  // The largest size above `from`, which is a size that is reached, or 0; or `from` if there is
  // none. It may not be planned yet. Errors: those of FindPeak() (apps/peak/find_peak.h).
  absl::StatusOr<PeakResult> Find(int64_t from) const;
  // Plans the result of Find() if it is not planned, and says what the plan shows.
  absl::Status Complete(PeakResult& result) const;
  // Adds the trial runs to a complete result.
  absl::Status Confirm(PeakResult& result) const;

 private:
  bool IsBatch() const { return peak_.growth.what == "batch"; }
  NetFlags Sized(int64_t n) const { return programs_.Sized(n); }
  absl::StatusOr<int64_t> MinimumAt(int64_t n, const PlannerOptions& options) const;
  // Whether a plan fits the budget and the host budget.
  absl::StatusOr<bool> FitsBoth(int64_t n) const;
  // Plans the largest size, or a smaller one if the host budget requires that. `from` as in Find().
  absl::Status PlanLargest(int64_t from, PeakResult& result) const;
  // Options() without a budget, under the policy that moves nothing.
  PlannerOptions Unlimited() const;
  absl::StatusOr<PlanResult> PlanAt(int64_t n, const PlannerOptions& options) const;
  // The plan of this size under Unlimited(), in as few sub-batches as kernels have indices for.
  absl::StatusOr<PlanResult> PlanUnlimited(int64_t n) const;
  // Replaces the size found and its plan by those of the largest that keeps its speed.
  absl::Status Keep(int64_t from, PeakResult& result) const;
  // `planned` is the plan at this size in the budget.
  absl::StatusOr<KeptSpeed> SpeedOf(int64_t n, const PlanResult& planned) const;
  // About the largest size that fits if nothing is moved; at most `most`.
  absl::StatusOr<int64_t> LargestUnmoved(int64_t most) const;
  absl::Status KeepsTooLittle() const;
  absl::StatusOr<NaturalPeaks> NaturalAt(int64_t n) const;
  // Trains at the batch of `run` without a budget, too, if the device has room for that; else
  // predicts its speed.
  absl::StatusOr<KeptSpeed> MeasureKept(const PeakRun& run) const;
  absl::StatusOr<PeakRun> RunAtMost(int64_t n) const;
  absl::StatusOr<PeakRun> Run(const NetFlags& net, const PlannerOptions& options) const;

  const PeakCase peak_;
  const ProgramChoice choice_;
  const SizedPrograms programs_;
  const SizeSearch sizes_;
};

}  // namespace neap::apps

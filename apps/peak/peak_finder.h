// The flags of `neap peak-batch` and `neap peak-depth`, and their search and trial run with one
// choice of the program.
//
// A probe computes only the minimum budget of a size. The size that is found is planned in full and
// verified, and with --run it is trained on the device. If its plan takes more pinned memory than
// the host budget, the search starts again with probes that plan in full, since only a full plan
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
#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "apps/cli/device_flag.h"
#include "apps/cli/flags.h"
#include "apps/cli/net_flags.h"
#include "apps/cli/optimizer_flags.h"
#include "apps/cli/planning_flags.h"
#include "apps/peak/peak_search.h"
#include "apps/train/trial_run.h"
#include "neap/memory/planner.h"

namespace neap::apps {

struct PeakFlags {
  NetFlags net;
  PlanningFlags planning;
  OptimizerFlags optimizer;
  bool run = false;
  int64_t steps = 3;
  std::optional<int64_t> compared_batch = {};
  std::optional<double> keep_percent = {};
  bool json = false;

  PeakFlags() { planning.policy = "auto"; }
  // Adds the flags of planning, running and printing; each subcommand adds those of the network.
  void AddTo(FlagSet& flags);
  // Errors: BadUsage() for flags that contradict each other.
  absl::Status Check() const;
};

// How the network grows with n, which is a batch or the n of a depth rule (3n+134).
struct Growth {
  std::string what;  // "batch" or "depth"
  int64_t most = 0;
  int64_t least = 1;  // FindPeak() (apps/peak/find_peak.h) sets it
  // Whether parameters on the host are tried without being asked for. They allow much deeper
  // networks, which take long to plan.
  bool tries_offloading = false;
  std::function<void(int64_t n, nets::NetOptions& options)> apply;
  // Told of every network before it is planned or trained; may be null.
  std::function<void(const std::string& doing, const NetFlags& net)> on_size = {};
  // Told of every network that "fits the budget" or, with --keep, "keeps its speed"; may be null.
  std::function<void(const std::string& what, const NetFlags& net)> on_found = {};
};

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
  PlanResult planned;
  std::string measured_with;        // library versions; empty: no measured times were used
  std::string placeholder_engines;  // PlaceholderEngines(): empty if all engines are known
  int64_t batch = 0;
  std::optional<int64_t> depth = {};
  PeakSearch search = {};
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
  // *Ownership*: borrows all but the choice.
  PeakFinder(const PeakFlags& flags, const PlanTarget& target, const Growth& growth,
             const ProgramChoice& choice)
      : flags_(flags), target_(target), growth_(growth), choice_(choice) {}

  // The smallest size: 1, or 2 if batch norms would have one value per channel.
  int64_t Least(const std::string& net) const;
  // Whether the planner may run the network in so many sub-batches. Its images may be coupled.
  absl::StatusOr<bool> MaySplit(const std::string& net) const;
  // Whether the planner may keep the parameters on the host.
  absl::StatusOr<bool> MayOffload(const std::string& net) const;
  // Tries sizes that are larger than `from` by an eighth, twice that, and so on. `largest` is the
  // last that was reached, or `from`.
  absl::StatusOr<PeakSearch> Grow(const std::string& net, int64_t from) const;
  // Whether a size fits and, with --keep, keeps its speed.
  absl::StatusOr<bool> Reaches(const std::string& net, int64_t n) const;
  // By planning alone. `from` is a size that is reached, or 0. Errors: those of
  // FindPeak() (apps/peak/find_peak.h).
  absl::StatusOr<PeakResult> Find(const std::string& net, int64_t from) const;
  // Adds the trial runs to the result of Find().
  absl::Status Confirm(const std::string& net, PeakResult& result) const;

 private:
  bool IsBatch() const { return growth_.what == "batch"; }
  NetFlags Sized(const std::string& net, int64_t n) const;
  absl::StatusOr<Graph> Build(const std::string& doing, NetFlags net) const;
  // What the flags ask for, maybe with a choice of the program.
  PlannerOptions Asked() const;
  // Asked(), with the finder's choice.
  PlannerOptions Options() const;
  // The finder's number of sub-batches, or as many as a batch of so many images can be run in.
  int64_t SubBatchesOf(int64_t batch) const;
  absl::StatusOr<Program> ProgramOf(const Graph& graph) const;
  absl::StatusOr<int64_t> MinimumAt(const std::string& net, int64_t n,
                                    const PlannerOptions& options) const;
  // Whether the smallest plan by these engines fits the budget. Sizes that cannot be built or run
  // do not.
  absl::StatusOr<bool> SmallestFits(const std::string& net, int64_t n,
                                    EngineCatalog& engines) const;
  // About the largest size that fits, at least `from`: what fits if kernels need no workspaces, for
  // which no engines are listed; that takes most of the time of a probe. On a CPU it takes none, so
  // there it is `from`.
  absl::StatusOr<int64_t> Likely(const std::string& net, int64_t from) const;
  // Whether the smallest plan fits the budget.
  absl::StatusOr<bool> FitsBudget(const std::string& net, int64_t n) const;
  // The plan, if it fits the budget and the host budget.
  absl::StatusOr<std::optional<PlanResult>> PlanIfFits(const std::string& net, int64_t n) const;
  absl::StatusOr<bool> FitsBoth(const std::string& net, int64_t n) const;
  // Finds the largest size and plans it.
  absl::StatusOr<PeakResult> Search(const std::string& net, int64_t from) const;
  // Options() without a budget, under the policy that moves nothing.
  PlannerOptions Unlimited() const;
  absl::StatusOr<PlanResult> PlanAt(const std::string& net, int64_t n,
                                    const PlannerOptions& options) const;
  // The plan of this size under Unlimited(), in as few sub-batches as kernels have indices for.
  absl::StatusOr<PlanResult> PlanUnlimited(const std::string& net, int64_t n) const;
  // Replaces the size found and its plan by those of the largest that keeps its speed.
  absl::Status Keep(const std::string& net, int64_t from, PeakResult& result) const;
  // `planned` is the plan at this size in the budget.
  absl::StatusOr<KeptSpeed> SpeedOf(const std::string& net, int64_t n,
                                    const PlanResult& planned) const;
  // About the largest size that fits if nothing is moved; at most `most`.
  absl::StatusOr<int64_t> LargestUnmoved(const std::string& net, int64_t most) const;
  absl::Status KeepsTooLittle(const std::string& net) const;
  // Trains at the batch of `run` without a budget, too, if the device has room for that; else
  // predicts its speed.
  absl::StatusOr<KeptSpeed> MeasureKept(const std::string& net, const PeakRun& run) const;
  absl::StatusOr<PeakRun> RunAtMost(const std::string& net, int64_t n) const;
  absl::StatusOr<PeakRun> Run(const NetFlags& net, const PlannerOptions& options) const;

  const PeakFlags& flags_;
  const PlanTarget& target_;
  const Growth& growth_;
  ProgramChoice choice_;
};

}  // namespace neap::apps

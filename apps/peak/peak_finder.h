// How large a network may become: the flags, the search and the proof that `neap peak-batch` and
// `neap peak-depth` share.
//
// A probe asks only for the smallest budget that a size can do with. What is found is planned in
// full and verified, and with --run trained at that size on the device. Where the plan takes more
// pinned memory than the host budget, the search begins anew with probes that plan in full: the
// pinned memory of a size is known from nothing less.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "apps/cli/device_flag.h"
#include "apps/cli/flags.h"
#include "apps/cli/net_flags.h"
#include "apps/cli/planning_flags.h"
#include "apps/peak/peak_search.h"
#include "apps/train/trial_run.h"
#include "neap/memory/planner.h"

namespace neap::apps {

struct PeakFlags {
  NetFlags net;
  PlanningFlags planning;
  bool run = false;
  int64_t steps = 3;
  std::optional<int64_t> compared_batch = {};
  bool json = false;

  PeakFlags() { planning.policy = "superneurons"; }
  // Of planning, running and printing; those of the network are the subcommand's own.
  void AddTo(FlagSet& flags);
  // Errors: BadUsage() for flags that contradict each other.
  absl::Status Check() const;
};

// The network with n of what grows; n is a batch, or counts the steps of a depth rule.
struct Growth {
  std::string what;  // "batch" or "depth"
  int64_t most = 0;
  std::function<void(int64_t n, nets::NetOptions& options)> apply;
};

struct PeakRun {
  TrialRun trial = {};
  std::optional<int64_t> depth = {};
  int64_t refused = 0;  // larger sizes that the device had no room for
};

struct PeakResult {
  std::string what;  // Growth::what
  PlanResult planned;
  std::string measured_with;    // versions of libraries; empty: planned by no measured times
  std::string made_up_engines;  // MadeUpEngines(): empty where the library lists all
  int64_t batch = 0;
  std::optional<int64_t> depth = {};
  PeakSearch search = {};
  double plan_ms = 0;         // planning and verifying what was found
  bool at_most_size = false;  // larger networks than this are refused whatever the budget
  bool by_host = false;       // larger ones fit the budget, but not the host's
  std::optional<PeakRun> run = {};
  std::optional<PeakRun> compared = {};
};

class PeakFinder {
 public:
  // *Ownership*: borrows all three.
  PeakFinder(const PeakFlags& flags, const PlanTarget& target, const Growth& growth)
      : flags_(flags), target_(target), growth_(growth) {}

  // Errors: RESOURCE_EXHAUSTED where not even the smallest fits; BadUsage() for a network that
  // there is not.
  absl::StatusOr<PeakResult> Find(const std::string& net) const;

 private:
  NetFlags Sized(const std::string& net, int64_t n) const;
  PlannerOptions Options() const;
  // Whether the smallest plan fits the budget.
  absl::StatusOr<bool> FitsBudget(const std::string& net, int64_t n) const;
  // Whether the plan fits the budget and the host's.
  absl::StatusOr<bool> FitsBoth(const std::string& net, int64_t n) const;
  // The largest, planned.
  absl::StatusOr<PeakResult> Search(const std::string& net) const;
  absl::StatusOr<PlanResult> PlanAt(const std::string& net, int64_t n) const;
  absl::StatusOr<PeakRun> RunAtMost(const std::string& net, int64_t n) const;
  absl::StatusOr<PeakRun> Run(NetFlags net) const;

  const PeakFlags& flags_;
  const PlanTarget& target_;
  const Growth& growth_;
};

}  // namespace neap::apps

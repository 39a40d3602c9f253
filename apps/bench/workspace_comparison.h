// How fast a network trains in pools of fixed sizes, by several ways to choose the workspaces of
// its convolutions (SuperNeurons 4.1.2, Figure 12; moDNN 5.2.3).
//
// Every way has a plan of its own for each budget and batch. Its predicted time is known without a
// device; with one, it is trained for some steps with one synthetic batch. Equal plans are trained
// once, so that where a rule changes nothing the speed is the same and no noise.
//
//   WorkspaceBench bench({.budgets_bytes = {3 * kGiB}, .batches = {100, 200}}, net, target, train);
//   const auto go_on = [](const WorkspaceRun& /*next*/) { return !Interrupted(); };
//   ASSIGN_OR_RETURN(const std::vector<WorkspaceRun> runs, bench.Run(go_on));
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/cli/device_flag.h"
#include "apps/cli/net_flags.h"
#include "neap/core/base/units.h"
#include "neap/core/plan/plan.h"
#include "neap/memory/planner.h"

namespace neap::apps {

// Rising, each once.
struct WorkspaceBenchOptions {
  std::vector<int64_t> budgets_bytes = {3 * kGiB, 5 * kGiB};
  std::vector<int64_t> batches = {100, 150, 200, 250, 300, 350, 400};
  std::vector<int64_t> limits_bytes = {8 * kMiB, 64 * kMiB, 512 * kMiB};  // of each convolution
  std::string policy = "superneurons";
};

// What one convolution is run with. Of one that runs again: both times.
struct WorkspaceStep {
  std::string layer;
  Phase phase = Phase::kForward;
  int64_t workspace_bytes = 0;
  std::string configuration;  // "3 x 64 eng3"; empty where there is no choice
};

struct Speed {
  double predicted = 0;  // images per second
  std::optional<double> measured = {};
};

// One plan, or none.
struct WorkspaceRun {
  int64_t budget_bytes = 0;
  int64_t batch = 0;
  std::string rule;
  std::optional<Speed> speed = {};        // empty: it does not fit, and the rest says nothing
  int64_t kernels = 0;                    // that an iteration runs
  int64_t measured_kernels = 0;           // of those, by measured times
  int64_t offloaded_bytes = 0;            // in an iteration
  std::vector<WorkspaceStep> steps = {};  // in program order
};

// Images per second. Errors: RESOURCE_EXHAUSTED where there is no room; CANCELLED where it was
// stopped.
using TrainByPlan =
    std::function<absl::StatusOr<double>(const Graph& graph, const PlannerOptions& options)>;

class WorkspaceBench {
 public:
  // `train` empty: plans only. *Ownership*: borrows the target.
  WorkspaceBench(WorkspaceBenchOptions options, NetFlags net, const PlanTarget& target,
                 TrainByPlan train)
      : options_(std::move(options)),
        net_(std::move(net)),
        target_(target),
        train_(std::move(train)) {}

  // The names of the rules: best (the default), left-over, gain, and the limits.
  std::vector<std::string> Rules() const;
  int64_t size() const;  // runs in all
  // In order of budget, batch and rule. `go_on` is asked before each, which then has no more than
  // these; where it says no, or training is CANCELLED, those that are done are all.
  absl::StatusOr<std::vector<WorkspaceRun>> Run(
      const std::function<bool(const WorkspaceRun& next)>& go_on);

 private:
  struct Rule {
    std::string name;
    KernelOptions kernels;
  };
  struct Trained {
    std::vector<Action> actions;
    std::optional<double> images_per_second;
  };
  std::vector<Rule> MakeRules() const;
  // Fills in the rest of `run`. `trained` are the plans of its budget and batch that were.
  absl::StatusOr<WorkspaceRun> RunBy(const Rule& rule, WorkspaceRun run, const Graph& graph,
                                     std::vector<Trained>& trained) const;
  absl::StatusOr<std::optional<double>> TrainOnce(const Plan& plan, const Graph& graph,
                                                  const PlannerOptions& options,
                                                  std::vector<Trained>& trained) const;

  WorkspaceBenchOptions options_;
  NetFlags net_;
  const PlanTarget& target_;
  TrainByPlan train_;
};

}  // namespace neap::apps

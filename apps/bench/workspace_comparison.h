// How fast a network trains in pools of fixed sizes under several rules that choose the workspaces
// of its convolutions (SuperNeurons 4.1.2, Figure 12; moDNN 5.2.3).
//
// Each rule has its own plan for each budget and batch. The predicted time needs no device; with a
// device, the network is trained for some steps with one synthetic batch. Equal plans are trained
// once, so rules that lead to the same plan have exactly the same speed.
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

// The lists are sorted and have no duplicates.
struct WorkspaceBenchOptions {
  std::vector<int64_t> budgets_bytes = {3 * kGiB, 5 * kGiB};
  std::vector<int64_t> batches = {100, 150, 200, 250, 300, 350, 400};
  std::vector<int64_t> limits_bytes = {8 * kMiB, 64 * kMiB, 512 * kMiB};  // of each convolution
  std::string policy = "superneurons";
};

// The configuration of one convolution step. A step that is recomputed appears twice.
struct WorkspaceStep {
  std::string layer;
  Phase phase = Phase::kForward;
  int64_t workspace_bytes = 0;
  std::string configuration;  // "3 x 64 eng3"; empty if there is no choice
};

struct Speed {
  double predicted = 0;  // images per second
  std::optional<double> measured = {};
};

// The result for one budget, batch and rule, whether a plan fits or not.
struct WorkspaceRun {
  int64_t budget_bytes = 0;
  int64_t batch = 0;
  std::string rule;
  std::optional<Speed> speed = {};        // empty: no plan fits, and the fields below are unset
  int64_t kernels = 0;                    // run by an iteration
  int64_t measured_kernels = 0;           // kernels with measured times
  int64_t offloaded_bytes = 0;            // per iteration
  std::vector<WorkspaceStep> steps = {};  // in program order
};

// Returns images per second. Errors: RESOURCE_EXHAUSTED if it does not fit; CANCELLED if it was
// stopped.
using TrainByPlan =
    std::function<absl::StatusOr<double>(const Graph& graph, const PlannerOptions& options)>;

class WorkspaceBench {
 public:
  // If `train` is empty, it only plans. *Ownership*: borrows the target.
  WorkspaceBench(WorkspaceBenchOptions options, NetFlags net, const PlanTarget& target,
                 TrainByPlan train)
      : options_(std::move(options)),
        net_(std::move(net)),
        target_(target),
        train_(std::move(train)) {}

  // The rules' names: best (the default), left-over, gain, and the limits.
  std::vector<std::string> Rules() const;
  int64_t size() const;  // the number of runs
  // Runs in order of budget, batch and rule. Before each run, `go_on` is called with its budget,
  // batch and rule; if it returns false, or training is CANCELLED, the runs so far are returned.
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
  // Fills in the rest of `run`. `trained` holds the plans of its budget and batch trained so far.
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

// How the network of a training is lowered and planned, according to the flags.
//
//   const TrainPlanning plans(flags, graph, *device, ranks.share());
//   ASSIGN_OR_RETURN(const Program program, plans.ProgramFor(nullptr));
//   ASSIGN_OR_RETURN(const double seconds, plans.PredictSeconds());  // infinity: does not fit
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "apps/train/report/train_report.h"
#include "apps/train/train_flags.h"
#include "neap/core/device/communicator.h"
#include "neap/core/device/device.h"
#include "neap/core/graph/graph.h"
#include "neap/core/plan/planner.h"
#include "neap/core/program/program.h"

namespace neap::apps {

// *Ownership*: borrows flags, graph and device.
class TrainPlanning {
 public:
  TrainPlanning(const TrainFlags& flags, const Graph& graph, Device& device, const RankShare& share)
      : flags_(flags), graph_(graph), device_(device), share_(share) {}

  // The program for a plan that is read from a file, or, without a planner, for one to be made.
  absl::StatusOr<Program> ProgramFor(const Planner* planner) const;
  // Also fills in what `setup` reports about planning.
  absl::StatusOr<std::shared_ptr<const Planner>> MakePlanner(TrainSetup& setup) const;
  // A planner that knows more times than that of MakePlanner(): of kernels that are measured now,
  // in at most --measure seconds, with a progress line of rank 0. Ranks share them; null: there is
  // one rank. If none can be measured, the same planner, and a notice in `setup` where the user may
  // expect it.
  absl::StatusOr<std::shared_ptr<const Planner>> Measured(std::shared_ptr<const Planner> planner,
                                                          TextExchange* ranks,
                                                          TrainSetup& setup) const;
  // The time of an iteration with the copy of its batch; infinity if it does not fit the budget.
  absl::StatusOr<double> PredictSeconds() const;

 private:
  bool MeasuresKernels() const;
  // A notice if the ranks divide what a loss takes for one set of images.
  void NoteDiceOfRanks(TrainSetup& setup) const;
  absl::StatusOr<double> PredictSecondsIfItFits() const;
  absl::StatusOr<Program> LowerWith(const ProgramChoice& choice) const;

  const TrainFlags& flags_;
  const Graph& graph_;
  Device& device_;
  const RankShare share_;
};

}  // namespace neap::apps

// Turns a policy into drafts: the smallest that it can do with, and the best for a budget.
//
// Between the bytes that a policy can do with and those with which it does as it likes lie levels,
// the same ones whatever the budget. Each gives a draft, for each order of runs that the policy may
// use (tensor-cache and superneurons may move, the latter also rebuild and move less) and each rule
// of who gives way, tensors or workspaces (KernelOptions::workspace_rule). Of those that fit the
// budget the one that the cost model finds fastest is taken. So a larger budget only adds to the
// choice, and never makes a plan slower.
#pragma once

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/device/device.h"
#include "neap/core/plan/cost_model.h"
#include "neap/core/plan/plan.h"
#include "neap/core/plan/timeline.h"
#include "neap/core/program/liveness.h"
#include "neap/core/program/program.h"
#include "neap/memory/candidate.h"
#include "neap/memory/engines/engine_table.h"
#include "neap/memory/planner_options.h"
#include "neap/memory/policies/policies.h"
#include "neap/memory/transfer/overlap.h"
#include "neap/recompute/layerwise_bound.h"
#include "neap/recompute/recompute.h"

namespace neap {

class Drafter {
 public:
  // Lists engines. *Ownership*: borrows program, options and device.
  static absl::StatusOr<Drafter> Create(const Program& program, const Policy& policy,
                                        const PlannerOptions& options,
                                        const DeviceDescription& device, EngineCatalog& catalog);

  // In the least bytes.
  absl::StatusOr<Draft> Smallest() const;
  // The fastest in the options' budget, in which `smallest` fits.
  absl::StatusOr<Draft> Best(const Draft& smallest) const;

  const EngineTable& engines() const { return engines_; }
  const LayerwiseBound& layerwise() const { return layerwise_; }
  double engines_ms() const { return engines_ms_; }

 private:
  // A way to order the runs.
  struct Order {
    Liveness liveness;
    std::vector<bool> eager;          // by TensorId; empty: none
    std::vector<int64_t> workspaces;  // by position: the least
    std::vector<int64_t> preferred;   // by position: those of the fastest configurations
    TransferTimes times;
    double fastest_us = 0;  // of an iteration in which nothing waits
    Usage smallest_limit;   // of residency, in the smallest draft
  };

  Drafter(const Program& program, const Policy& policy, const PlannerOptions& options,
          const DeviceDescription& device)
      : program_(&program),
        policy_(policy),
        options_(&options),
        device_(&device),
        transfers_(TransferCosts(device)),
        layerwise_(BoundLayerwise(program, in_place())) {}

  Order MakeOrder(RunOrder run_order) const;
  bool in_place() const;
  absl::StatusOr<Draft> SmallestOf(const Order& order) const;
  struct Timed {
    Draft draft;
    double us = 0;
  };
  // May workspaces drive tensors out?
  bool MayGain(const Order& order) const;
  // The workspaces that tensors make room for, by position, at a level of memory: one for each rule
  // of who gives way. `least`: what is decided there for the least.
  std::vector<std::vector<int64_t>> WorkspacesAt(const Order& order, const Residency& least,
                                                 const Usage& limit) const;
  // In bytes of usage, without persistent tensors; the highest first. The same ones for every rule,
  // so that what a rule alone would find is among what both find.
  std::vector<int64_t> Levels(const Order& order) const;
  int64_t BytesToKeepAll(const Order& order, const std::vector<int64_t>& workspaces) const;
  // Keeps the fastest in the options' budget, if any fits. `scratch` describes the program.
  absl::Status TryLevels(const Order& order, Plan& scratch, std::optional<Timed>& best) const;
  Residency Decide(const Order& order, const std::vector<int64_t>& workspaces,
                   const Usage& limit) const;
  // At a level of memory, transfers overlapped.
  Residency DecideAt(const Order& order, const std::vector<int64_t>& workspaces,
                     const Usage& limit) const;
  absl::StatusOr<Draft> Place(const Order& order, std::vector<int64_t> workspaces,
                              Residency residency, const PlacementGoal& goal) const;
  // The draft's predicted time. If that is not below `best_us`, it may leave out the waits for
  // reused places in the pools, which only add to a time, so that their layout need not be found.
  absl::StatusOr<double> PredictedUs(const Draft& draft, double best_us, Plan& scratch) const;

  const Program* program_;
  Policy policy_;
  const PlannerOptions* options_;
  const DeviceDescription* device_;
  TimelineCosts transfers_;  // of steps, their engines decide
  LayerwiseBound layerwise_;
  std::vector<bool> travels_;  // by TensorId; empty: none
  EngineTable engines_;
  double engines_ms_ = 0;
  std::vector<Order> orders_;
};

}  // namespace neap

// A few training steps with one synthetic batch: shows that a plan runs, and how fast.
//
//   ASSIGN_OR_RETURN(const TrialRun run, RunTrial(graph, *device, options, /*steps=*/20));
//   run.images_per_second;
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "neap/core/device/device.h"
#include "neap/core/graph/graph.h"
#include "neap/core/run/session.h"
#include "neap/core/step/optimizer.h"
#include "neap/memory/planner_options.h"

namespace neap::apps {

struct TrialRun {
  int64_t batch = 0;
  int64_t steps = 0;             // fewer than asked for after Ctrl-C
  double images_per_second = 0;  // of the median step (StepTimes); 0 without any
  MemoryUse memory = {};
};

// Errors: those of Session; RESOURCE_EXHAUSTED if it does not fit the budget or the device.
absl::StatusOr<TrialRun> RunTrial(const Graph& graph, Device& device, const PlannerOptions& options,
                                  int64_t steps, const Optimizer& optimizer = {});

}  // namespace neap::apps

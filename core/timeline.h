// When each action of a plan runs, as far as costs can tell.
//
// Whether a transfer is hidden is not to be seen from its size: it depends on what the other
// streams do meanwhile, and on who waits for whom. So the three streams are played through in issue
// order, each with a clock of its own, and a `wait` sets a clock to the end of what it is for
// (docs/plan-format.md). Planning policies ask what a choice costs, and trace and report draw the
// answer.
//
//   compute  |conv1|relu1|  ...      |  |conv1 again|  <- held back: the prefetch is late
//   d2h            |offload|            .
//   h2d                        |prefetch|
//
//   Timeline timeline = PredictTimeline(plan, PredictCosts(program, description));
//   timeline.total_us;                                    // of the iteration
//   timeline.actions[i].end_us;                           // of plan.actions[i]
//   timeline.total_us - timeline.busy_us[0];              // compute waits for so long
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "neap/core/device/device.h"
#include "neap/core/plan.h"

namespace neap {

struct TimelineCosts {
  std::vector<double> step_seconds;     // by StepId
  std::vector<double> rerun_seconds;    // by StepId: of a recomputation
  double d2h_bytes_per_second = 0;      // 0: as if bytes took no time
  double h2d_bytes_per_second = 0;      // likewise
  double transfer_latency_seconds = 0;  // of each transfer, besides its bytes
};

struct ActionTime {
  double begin_us = 0;
  double end_us = 0;
  double elapsed_us() const { return end_us - begin_us; }
};

// Compute has nothing to do until a transfer has finished.
struct Stall {
  size_t wait = 0;  // action index
  size_t on = 0;    // action index of what it waits for
  double begin_us = 0;
  double end_us = 0;
};

struct Timeline {
  // By action index. `alloc` and `free` take no time and are where compute has got to; nor does a
  // `wait`, which is where its stream goes on.
  std::vector<ActionTime> actions;
  double total_us = 0;                            // until every stream has finished
  std::array<double, kStreamCount> busy_us = {};  // by Stream: time spent running actions
  std::vector<Stall> stalls;                      // of the compute stream, in order of time
};

// `plan` must be one that the verifier accepts, and `costs` those of its steps.
Timeline PredictTimeline(const Plan& plan, const TimelineCosts& costs);

}  // namespace neap

// When each action of a plan runs: as far as costs can tell, or as it was measured.
//
// Whether a transfer is hidden is not to be seen from its size: it depends on what the other
// streams do meanwhile, and on who waits for whom. So the three streams are played through in issue
// order, each with a clock of its own, and a `wait` sets a clock to the end of what it is for
// (docs/plan-format.md). Planning policies ask what a choice costs, and trace and report draw the
// answer. An iteration that was timed (Session::TimeStep) gives a timeline of the same kind.
//
//   compute  |conv1|relu1|  ...      |  |conv1 again|  <- held back: the prefetch is late
//   d2h            |offload|            .
//   h2d                        |prefetch|
//
//   Timeline timeline = PredictTimeline(result.plan, result.costs);  // of a PlanResult
//   timeline.total_us;                                    // of the iteration
//   timeline.actions[i].end_us;                           // of plan.actions[i]
//   timeline.total_us - timeline.busy_us[0];              // compute waits for so long
//   FindOverlap(plan, timeline).hidden_us;                // of the copies, behind computation
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "neap/core/device/device.h"
#include "neap/core/plan/plan.h"

namespace neap {

struct TimelineCosts {
  std::vector<double> compute_seconds;  // by compute action, in order
  double d2h_bytes_per_second = 0;      // 0: as if bytes took no time
  double h2d_bytes_per_second = 0;      // likewise
  double peer_bytes_per_second = 0;     // to a peer, and back; likewise
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

// `plan` must be one that the verifier accepts, and `costs` those of its actions.
Timeline PredictTimeline(const Plan& plan, const TimelineCosts& costs);

// What comes before an iteration's first action: its batch crosses to the device, and nothing runs
// meanwhile.
double BatchCopySeconds(const Plan& plan, const TimelineCosts& costs);

// `ran`, by action index, says when computes and transfers ran; what it says of others is not
// looked at. A stall is then the time from the end of what compute did last to the end of the
// transfer: if the host was late as well, that shows only after it.
Timeline MeasuredTimeline(const Plan& plan, const std::vector<ActionTime>& ran);

// For how long streams run actions at the same time.
struct Overlap {
  double copying_us = 0;           // d2h or h2d runs
  double hidden_us = 0;            // and compute runs too
  double both_ways_us = 0;         // d2h and h2d run
  double hidden_both_ways_us = 0;  // and compute runs too
};
// `timeline` must be the plan's. *Complexity*: that of sorting its actions.
Overlap FindOverlap(const Plan& plan, const Timeline& timeline);

}  // namespace neap

// The times at which the actions of a plan run: predicted from costs, or as measured.
//
// Whether a transfer is hidden cannot be told from its size: it depends on what the other streams
// do meanwhile, and on the waits between them. The streams are therefore simulated in issue
// order, each with its own clock, and a `wait` advances a clock to the end of the action that it
// waits for (docs/plan-format.md). Planning policies use this to price a choice, and traces and
// reports show it. An iteration that was timed (Session::TimeStep) gives a timeline of the same
// kind.
//
//   compute  |conv1|relu1|  ...      |  |conv1 again|  <- stalled: the prefetch is late
//   d2h            |offload|            .
//   h2d                        |prefetch|
//
//   Timeline timeline = PredictTimeline(result.plan, result.costs);  // `result` is a PlanResult
//   timeline.total_us;                            // duration of the iteration
//   timeline.actions[i].end_us;                   // when result.plan.actions[i] ends
//   timeline.total_us - timeline.busy_us[0];      // how long the compute stream is idle
//   FindOverlap(result.plan, timeline).hidden_us; // how long copies run behind computation
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "neap/core/device/device.h"
#include "neap/core/plan/plan.h"

namespace neap {

// How the time of a kernel is known, best last: from the cost model (core/plan/cost_model.h), from
// measured times of the same engine for other numbers of images, or measured.
enum class TimeSource : uint8_t { kModel, kInterpolated, kMeasured };

struct TimelineCosts {
  std::vector<double> compute_seconds;  // by compute action, in order
  // A bandwidth of 0 stands for an infinite one.
  double d2h_bytes_per_second = 0;
  double h2d_bytes_per_second = 0;
  double peer_bytes_per_second = 0;     // to a peer, and back
  double device_bytes_per_second = 0;   // of the device's memory, read plus written
  double transfer_latency_seconds = 0;  // of each transfer, in addition to the time of its bytes
  // Relative slowdown of a step while a tensor is offloaded, and while one is prefetched; the sum
  // while both run. Only transfers that are issued before the step count, and the batch's copy does
  // not.
  double slowdown_by_offloads = 0;
  double slowdown_by_prefetches = 0;
  double collective_bytes_per_second = 0;  // summed over the ranks; 0 stands for infinite
  double collective_latency_seconds = 0;   // of each, in addition to the time of its bytes
  // Relative slowdown of a long step while a collective runs that is issued before it, and the time
  // of a step that it slows down by another 1; more for shorter ones, up to 1 in all.
  double slowdown_by_sums = 0;
  double collective_interference_seconds = 0;
};

struct ActionTime {
  double begin_us = 0;
  double end_us = 0;
  double elapsed_us() const { return end_us - begin_us; }
};

// A time in which compute is idle until a transfer or a collective has finished.
struct Stall {
  size_t wait = 0;  // action index of the wait
  size_t on = 0;    // action index of what it waits for
  double begin_us = 0;
  double end_us = 0;
};

struct Timeline {
  // By action index. `alloc`, `free` and `wait` take no time: `alloc` and `free` are at the current
  // time of compute, and a `wait` is at the time at which its stream continues.
  std::vector<ActionTime> actions;
  double total_us = 0;                            // until every stream has finished
  std::array<double, kStreamCount> busy_us = {};  // by Stream: time spent running actions
  std::vector<Stall> stalls;                      // of the compute stream, in order of time
};

// The verifier must accept `plan`, and `costs` must be those of its actions.
Timeline PredictTimeline(const Plan& plan, const TimelineCosts& costs);

// The time of the batch's copy from the host.
double BatchFromHostSeconds(const Plan& plan, const TimelineCosts& costs);

// The time that the batch's copy adds to an iteration: its copy from the host, before the first
// action. If the plan has an incoming batch, its copy within the device, and what its copy from the
// host takes longer than the iteration before (Plan::predicted_ms), with which it begins:
//
//   compute  |within|iteration       |idle|within|iteration       |
//   input           |next batch, from host|      |next batch, ...
//
// The prefetches with which the copy shares the link do not slow it down here.
double BatchCopySeconds(const Plan& plan, const TimelineCosts& costs);

// `ran`, by action index, says when computes and transfers ran; its other entries are ignored. A
// stall is the time from the end of the last compute action to the end of the transfer, so a delay
// by the host shows only after the stall.
Timeline MeasuredTimeline(const Plan& plan, const std::vector<ActionTime>& ran);

// How long streams run actions at the same time.
struct Overlap {
  double copying_us = 0;            // d2h or h2d
  double hidden_us = 0;             // d2h or h2d, and compute
  double both_ways_us = 0;          // d2h and h2d
  double hidden_both_ways_us = 0;   // d2h, h2d and compute
  double collective_us = 0;         // collective
  double hidden_collective_us = 0;  // collective and compute
};
// `timeline` must be that of the plan. *Complexity*: that of sorting its actions.
Overlap FindOverlap(const Plan& plan, const Timeline& timeline);

}  // namespace neap

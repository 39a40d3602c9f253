// What a plan does with each tensor: kept, freed, shared, offloaded, rebuilt; what that costs and
// what it saves. The plan's answer to "where has my activation gone, and what did I pay for it?"
//
// Both prices are easy to get wrong. A transfer costs what compute waits for it, not how long it
// takes; a recomputation costs all of its time. And what a tensor saves is bytes only while it has
// none of its own on the device, counted here in steps run, so that tensors compare.
//
//   x     [=====made=====)  .  .  .  .  [==used==)         away for 4 steps between its uses
//   copy      [-offload-)      [-prefetch-)
//
//   for (const TensorFate& fate : TensorFates(plan, timeline)) {
//     std::cout << plan.tensors[fate.tensor.index()].name << ": " << Explain(plan, fate) << "\n";
//   }  // "conv1: offloaded after relu1 forward, back before conv1 backward_params; ..."
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "neap/core/plan/plan.h"
#include "neap/core/plan/timeline.h"

namespace neap {

// To the host and back. All are action indices.
struct Trip {
  size_t offload = 0;
  std::optional<size_t> after;     // the last compute action before it that touches the tensor
  std::optional<size_t> prefetch;  // none: it did not come back
  std::optional<size_t> before;    // the first compute action after it that touches the tensor
};

// [begin, end) of the compute actions, counted from 0.
struct Interval {
  int64_t begin = 0;
  int64_t end = 0;
  friend bool operator==(const Interval&, const Interval&) = default;
};

struct TensorFate {
  TensorId tensor;
  std::optional<TensorId> over;  // whose bytes it took over
  std::vector<Trip> trips;
  std::vector<StepId> reruns;      // that made it again
  std::optional<size_t> last_use;  // action index; none: nothing touches it
  bool is_freed = false;           // before the plan's end, and not allocated again

  std::vector<Interval> resident;  // while it has bytes of its own on the device
  // Steps run, recomputations included, while it has no bytes of its own on the device: in the
  // whole iteration, and between its first and its last use.
  int64_t absent_steps = 0;
  int64_t away_steps = 0;

  double transfer_us = 0;   // of its transfers, hidden or not
  double stall_us = 0;      // while compute waits for them
  double recompute_us = 0;  // its share, by bytes, of the recomputations that make it
};

// By TensorId. `plan` must be one that the verifier accepts, `timeline` its own.
std::vector<TensorFate> TensorFates(const Plan& plan, const Timeline& timeline);

// One line for a person.
std::string Explain(const Plan& plan, const TensorFate& fate);

}  // namespace neap

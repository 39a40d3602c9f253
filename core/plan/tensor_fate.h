// The history of each tensor in a plan (kept, freed, shared, offloaded, recomputed), what it costs
// and what it saves. It answers "where is my activation, and what did that cost?"
//
// Costs and savings are easy to get wrong. A transfer costs the time that compute waits for it, not
// its duration; a recomputation costs all of its time. A tensor saves bytes only while it has none
// of its own on the device, which is counted in steps run so that tensors can be compared.
//
//   x     [===written====)  .  .  .  .  [==used==)         away for 4 steps between its uses
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

// An offload and the prefetch that reads its copy. All are action indices.
struct Trip {
  std::optional<size_t> offload;   // nullopt: the copy is older than the iteration
  std::optional<size_t> after;     // the last compute action before it that touches the tensor
  std::optional<size_t> prefetch;  // nullopt if the copy is not read
  std::optional<size_t> before;    // the first compute action after it that touches the tensor
};

// The compute actions [begin, end), counted from 0.
struct Interval {
  int64_t begin = 0;
  int64_t end = 0;
  friend bool operator==(const Interval&, const Interval&) = default;
};

struct TensorFate {
  TensorId tensor;
  std::optional<TensorId> over;  // the tensor that it overwrites in place
  std::vector<Trip> trips;
  std::vector<StepId> reruns;      // the recomputations that write it
  std::optional<size_t> last_use;  // action index; nullopt if nothing uses it
  bool is_freed = false;           // freed before the plan's end, and not allocated again

  std::vector<Interval> resident;  // when it has bytes of its own on the device
  // Number of steps run, including recomputations, while it has no bytes of its own on the device:
  // in the whole iteration, and between its first and its last use.
  int64_t absent_steps = 0;
  int64_t away_steps = 0;

  double transfer_us = 0;   // duration of its transfers, hidden or not
  double stall_us = 0;      // time that compute waits for them
  double recompute_us = 0;  // its share, by bytes, of the recomputations that write it
};

// By TensorId. The verifier must accept `plan`, and `timeline` must be that of the plan.
std::vector<TensorFate> TensorFates(const Plan& plan, const Timeline& timeline);

// One line of text for the user.
std::string Explain(const Plan& plan, const TensorFate& fate);

}  // namespace neap

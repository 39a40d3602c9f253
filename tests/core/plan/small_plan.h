// A plan of three steps with an action of every kind, for tests of what is computed from plans.
#pragma once

#include "neap/core/base/units.h"
#include "neap/core/plan/plan.h"

namespace neap {

//   KiB
//   4 |         +-ws-+
//   3 |    +----b----+
//   2 |    |    b    |         b computed in place over a, c beside it
//   1 | +--a--+-c----+
//     +-w-----------------     weight, persistent
inline Plan SmallPlan() {
  Plan plan = {.net = "tiny", .batch = 2, .policy = "liveness", .device = "NVIDIA H200"};
  plan.budget_bytes = 8 * kKiB;
  plan.arena_bytes = 4 * kKiB;
  plan.peak_bytes = 4 * kKiB;
  plan.peak_activation_bytes = 1500;
  plan.predicted_ms = 0.125;
  const auto tensor = [&](const char* name, Role role, int64_t elements) {
    plan.tensors.push_back(
        {TensorId(plan.tensors.size()), name, role, Shape{elements}, DType::kFp32, 4 * elements});
  };
  tensor("weight", Role::kParam, 10);
  tensor("a", Role::kActivation, 250);
  tensor("b", Role::kActivation, 250);
  tensor("c", Role::kGradient, 125);
  const auto id = [](int i) { return TensorId(i); };
  plan.steps = {{StepId(0), "conv", "convolution", Phase::kForward, {id(0)}, {id(1)}, {}, {}, {}},
                {StepId(1),
                 "relu",
                 "relu",
                 Phase::kForward,
                 {id(1)},
                 {id(2), id(3)},
                 {},
                 {id(1)},
                 {{id(2), id(1)}}},
                {StepId(2), "conv", "sgd", Phase::kUpdate, {id(2), id(3)}, {}, {id(0)}, {}, {}}};
  plan.actions = {AllocAction{id(0), {0, 1024}},
                  AllocAction{id(1), {1024, 1024}},
                  ComputeAction{StepId(0), false, {{"fast", 1}, {"slow", 1}}, Region{3072, 1024}},
                  AllocAction{id(2), {1024, 1024}},
                  AllocAction{id(3), {2048, 1024}},
                  ComputeAction{StepId(1)},
                  OffloadAction{id(1)},
                  WaitAction{Stream::kCompute, 6},
                  FreeAction{id(1)},
                  PrefetchAction{id(3)},
                  ComputeAction{StepId(2), true},
                  FreeAction{id(2)},
                  FreeAction{id(3)}};
  return plan;
}

}  // namespace neap

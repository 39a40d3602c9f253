#include "neap/core/plan/plan.h"

#include <doctest/doctest.h>

#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "neap/core/base/units.h"
#include "tests/plan_script.h"

namespace neap {
namespace {

//   KiB
//   4 |         +-ws-+
//   3 |    +----b----+
//   2 |    |    b    |         b computed in place over a, c beside it
//   1 | +--a--+-c----+
//     +-w-----------------     weight, persistent
Plan SmallPlan() {
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

TEST_CASE("a region shared in place counts once, workspace only while its step runs") {
  const std::vector<StepMemory> memory = MemoryPerStep(SmallPlan());
  REQUIRE(memory.size() == 3);
  CHECK(memory[0].live_bytes == 3 * kKiB);  // weight, a, workspace
  CHECK(memory[0].workspace_bytes == kKiB);
  CHECK(memory[0].free_bytes == 5 * kKiB);
  CHECK(memory[0].live_activation_bytes == 1000);
  CHECK(memory[0].live_activations == 1);
  CHECK(memory[0].engine == "1 fast + 1 slow");
  CHECK(memory[1].live_bytes == 3 * kKiB);  // weight, a = b, c
  CHECK(memory[1].live_activation_bytes == 1500);
  CHECK(memory[1].live_activations == 2);
  CHECK(memory[2].live_bytes == 3 * kKiB);
  CHECK(memory[2].recompute);
  CHECK(memory[2].engine.empty());
  for (const StepMemory& step : memory) {
    CHECK(std::accumulate(step.role_bytes.begin(), step.role_bytes.end(), step.workspace_bytes) ==
          step.live_bytes);
    CHECK(step.role_bytes[static_cast<size_t>(Role::kParam)] == kKiB);
  }
  CHECK(memory[1].role_bytes[static_cast<size_t>(Role::kGradient)] == kKiB);
}

//   host   |  a  |      from its offload until the prefetch, in issue order
//          f1 f2 f3 f3' f2'
TEST_CASE("a host copy counts from its offload to the last prefetch that reads it") {
  const Plan plan = PlanFromScript(kTransferPlan);
  std::vector<int64_t> host_bytes;
  for (const StepMemory& memory : MemoryPerStep(plan)) host_bytes.push_back(memory.host_bytes);
  CHECK(host_bytes == std::vector<int64_t>{0, 2048, 2048, 2048, 0});
  CHECK(plan.host_peak_bytes == 2048);
}

//   host   | b         |      peer   | a   | b
//   what comes back from the peer is counted as that, and the same copy is in one place at a time
TEST_CASE("copies on the host and on the peer are counted apart") {
  Plan plan = SmallPlan();
  plan.host_peak_bytes = plan.peer_peak_bytes = 1024;
  std::get<OffloadAction>(plan.actions[6]).pool = Pool::kPeer;
  plan.actions.insert(plan.actions.begin() + 8,
                      {OffloadAction{TensorId(3)}, PrefetchAction{TensorId(1)}});
  const Movement movement = TotalMovement(plan);
  CHECK(movement.offloaded_bytes == 1000 + 500);
  CHECK(movement.peer_offloaded_bytes == 1000);
  CHECK(movement.prefetched_bytes == 1000 + 500);
  CHECK(movement.peer_prefetched_bytes == 1000);
  CHECK(plan.Summary().find("500 B to the host, 500 B back; 1.000 KiB there at most") !=
        std::string::npos);
  CHECK(plan.Summary().find("1000 B to the peer, 1000 B back; 1.000 KiB there at most") !=
        std::string::npos);
  const std::string script =
      Edited(Edited(kTransferPlan, "host 2", "host 0 peer 2"), "offload a", "offload a peer");
  std::vector<int64_t> peer_bytes;
  for (const StepMemory& memory : MemoryPerStep(PlanFromScript(script))) {
    peer_bytes.push_back(memory.peer_bytes);
    CHECK(memory.host_bytes == 0);
  }
  CHECK(peer_bytes == std::vector<int64_t>{0, 2048, 2048, 2048, 0});
}

TEST_CASE("the activation peak is the first of the steps with the largest activation sum") {
  const std::vector<StepMemory> memory = MemoryPerStep(SmallPlan());
  const std::optional<StepMemory> peak = ActivationPeak(memory);
  REQUIRE(peak.has_value());
  CHECK(peak->step == StepId(1));  // as busy as step 2
  CHECK(memory[2].live_activation_bytes == peak->live_activation_bytes);
  CHECK(!ActivationPeak({}).has_value());
}

TEST_CASE("the summary says what a person wants to know") {
  CHECK("\n" + SmallPlan().Summary() == R"(
tiny, batch 2, fp32 nchw, policy liveness, on NVIDIA H200
  budget               8.000 KiB
  arena = peak         4.000 KiB (4096 bytes)
  parameters           40 B
  optimizer            0 B
  states               0 B
  input                0 B
  activation peak      0.001 MiB (1500 bytes) at step 2, relu forward, with 2 live tensors
  rebuilt              1 extra forward steps
  steps                3, predicted 0.125 ms
)");
}

TEST_CASE("a plan without actions has a summary too") { CHECK(!Plan{}.Summary().empty()); }

TEST_CASE("equal plans have equal hashes, different ones different hashes") {
  Plan plan = SmallPlan();
  CHECK(plan.Hash() == SmallPlan().Hash());
  std::get<AllocAction>(plan.actions[0]).region.offset = 1024;
  CHECK(plan.Hash() != SmallPlan().Hash());
}

}  // namespace
}  // namespace neap

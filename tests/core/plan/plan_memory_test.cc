#include "neap/core/plan/plan_memory.h"

#include <doctest/doctest.h>

#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "neap/core/base/units.h"
#include "tests/core/plan/small_plan.h"
#include "tests/plan_script.h"

namespace neap {
namespace {

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
//   bytes from the peer are counted separately, and the same copy is in one place at a time
TEST_CASE("copies on the host and on the peer are counted separately") {
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
      Edited(Edited(kTransferPlan, "host 2", "peer 2 peer_pool 2"), "offload a", "offload a peer");
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
  CHECK(peak->step == StepId(1));  // its sum equals that of step 2
  CHECK(memory[2].live_activation_bytes == peak->live_activation_bytes);
  CHECK(!ActivationPeak({}).has_value());
}

}  // namespace
}  // namespace neap

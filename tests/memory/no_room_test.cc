// Plans without room outside the arena: nothing moves, and the stated minimum can be reached.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "neap/core/plan/budget_refusal.h"
#include "neap/core/plan/plan_memory.h"
#include "neap/core/verifier/verifier.h"
#include "neap/layers/catalog/default_catalog.h"
#include "neap/memory/planner.h"
#include "neap/memory/policies/policies.h"
#include "neap/nets/registry.h"
#include "tests/memory/planning.h"
#include "tests/random_graph.h"

namespace neap {
namespace {

using testing::H200;

// An H200 whose memory is the host's.
DeviceDescription Shared() {
  DeviceDescription device = H200();
  device.has_own_memory = false;
  return device;
}

const PlannerOptions kNoRoom = {.host_budget_bytes = 0};

PlannerOptions NoRoom(const std::string& policy, int64_t budget_bytes = kUnlimited) {
  PlannerOptions options = kNoRoom;
  options.policy = policy;
  options.budget_bytes = budget_bytes;
  return options;
}

bool MovesSomething(const Plan& plan) {
  const Movement movement = TotalMovement(plan);
  return movement.offloaded_bytes > 0 || movement.prefetched_bytes > 0 || plan.host_pool_bytes > 0;
}

// Whether the smallest plan runs forward steps again.
bool CheckMinimum(const Program& program, const std::string& policy,
                  const DeviceDescription& device) {
  CAPTURE(policy);
  DefaultCatalog catalog;
  const int64_t least = MinimumBudget(program, NoRoom(policy), device, catalog).value();
  const absl::StatusOr<PlanResult> smallest =
      MakePlan(program, NoRoom(policy, least), device, catalog);
  REQUIRE_MESSAGE(smallest.ok(), smallest.status().ToString());
  REQUIRE(Verify(smallest->plan).ok());
  CHECK(smallest->plan.arena_bytes <= least);
  CHECK(smallest->stats.minimum_budget_bytes == least);
  CHECK(!MovesSomething(smallest->plan));
  const absl::Status refused =
      MakePlan(program, NoRoom(policy, least - 1), device, catalog).status();
  CHECK(absl::IsResourceExhausted(refused));
  CHECK(SmallestBudget(refused) == least);
  CHECK(FitsBudget(program, NoRoom(policy, least), device, catalog).value());
  CHECK(!FitsBudget(program, NoRoom(policy, least - 1), device, catalog).value());
  return TotalMovement(smallest->plan).extra_forwards > 0;
}

TEST_CASE(
    "random networks: without room outside, the stated minimum is one that nothing moves in") {
  int rebuilt = 0;
  const uint32_t seeds = testing::RandomSeeds(12);
  for (uint32_t seed = 0; seed < seeds; ++seed) {
    CAPTURE(seed);
    const Program program = BuildProgram(testing::RandomGraph(seed), {}).value();
    for (const DeviceDescription& device : {H200(), Shared()}) {
      for (const char* const policy : {"liveness", "tensor-cache", "superneurons", "chen"})
        CheckMinimum(program, policy, device);
      rebuilt += CheckMinimum(program, "auto", device) ? 1 : 0;
    }
  }
  CHECK(rebuilt > 0);
}

TEST_CASE("without room outside, auto needs no more than the policies that only rebuild") {
  DefaultCatalog catalog;
  for (const int64_t depth : {8, 20}) {
    const Program program =
        BuildProgram(*nets::Build("resnet-cifar", {.batch = 16, .depth = depth}), {}).value();
    const auto least = [&](const std::string& policy) {
      return MinimumBudget(program, NoRoom(policy), H200(), catalog).value();
    };
    CHECK(least("tensor-cache") == least("liveness"));
    CHECK(least("superneurons") <= least("liveness"));
    CHECK(least("auto") <= std::min(least("superneurons"), least("chen")));
    // With room, moves take even less.
    CHECK(MinimumBudget(program, {.policy = "auto"}, H200(), catalog).value() <= least("auto"));
    CheckMinimum(program, "auto", Shared());
  }
}

TEST_CASE("without room outside, plans in every budget rebuild what does not fit") {
  DefaultCatalog catalog;
  const Program program =
      BuildProgram(*nets::Build("resnet-cifar", {.batch = 16, .depth = 20}), {}).value();
  const int64_t least = MinimumBudget(program, NoRoom("auto"), Shared(), catalog).value();
  const PlanResult roomy = MakePlan(program, NoRoom("auto"), Shared(), catalog).value();
  CHECK(TotalMovement(roomy.plan).extra_forwards == 0);
  CHECK(!MovesSomething(roomy.plan));
  double last_ms = 0;
  for (int64_t part = 8; part >= 0; --part) {
    CAPTURE(part);
    const int64_t budget = least + (roomy.plan.peak_bytes - least) * part / 8;
    const PlanResult result = MakePlan(program, NoRoom("auto", budget), Shared(), catalog).value();
    REQUIRE(Verify(result.plan).ok());
    CHECK(result.plan.peak_bytes <= budget);
    CHECK(!MovesSomething(result.plan));
    CHECK((TotalMovement(result.plan).extra_forwards > 0) == (part < 8));
    CHECK(result.plan.predicted_ms >= last_ms - 1e-9);
    last_ms = result.plan.predicted_ms;
  }
}

TEST_CASE("without room outside, what always moves is refused, and the refusal says why") {
  DefaultCatalog catalog;
  const Graph net = *nets::Build("alexnet", {.batch = 2});
  const Program program = BuildProgram(net, {}).value();
  int refused = 0;
  for (const Policy& policy : Policies()) {
    CAPTURE(policy.name);
    const std::string name(policy.name);
    const absl::Status shared = MakePlan(program, NoRoom(name), Shared(), catalog).status();
    CHECK(shared.ok() == !policy.always_moves());
    CHECK(MinimumBudget(program, NoRoom(name), Shared(), catalog).ok() == shared.ok());
    CHECK(HasRoomFor(policy, {}));
    CHECK(HasRoomFor(policy, kNoRoom) == shared.ok());
    if (shared.ok()) continue;
    ++refused;
    CHECK(absl::IsInvalidArgument(shared));
    CHECK(shared.message() ==
          "policy " + name +
              " moves tensors, but nothing moves to the host, because that is "
              "the same memory, unless there is a host budget above 0 bytes (--host-budget)");
    CHECK(MakePlan(program, NoRoom(name), H200(), catalog).status().message() ==
          "policy " + name + " moves tensors, but the host budget is 0 bytes (--host-budget)");
  }
  CHECK(refused == 6);
  const Program offloaded = BuildProgram(net, {.offload_params = true}).value();
  const absl::Status params = MakePlan(offloaded, NoRoom("auto"), Shared(), catalog).status();
  CHECK(absl::IsInvalidArgument(params));
  CHECK(std::string(params.message())
            .find("parameters or other tensors are to be kept on the host, but nothing") == 0);
}

TEST_CASE("a budget below the minimum without moves is refused with the reason, if there is one") {
  DefaultCatalog catalog;
  const Program program = BuildProgram(testing::RandomGraph(1), {}).value();
  const auto refusal = [&](const std::string& policy, const DeviceDescription& device) {
    PlannerOptions options = NoRoom(policy, 1);
    options.suggest_policy = false;
    return std::string(MakePlan(program, options, device, catalog).status().message());
  };
  const std::string same_memory = "); nothing moves to the host, because that is the same memory, ";
  CHECK(refusal("auto", Shared()).find(same_memory) != std::string::npos);
  CHECK(refusal("auto", H200()).find("); the host budget is 0 bytes") != std::string::npos);
  CHECK(refusal("liveness", Shared()).find(same_memory) == std::string::npos);
}

}  // namespace
}  // namespace neap

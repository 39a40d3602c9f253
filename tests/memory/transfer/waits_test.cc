#include "neap/memory/transfer/waits.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "neap/core/verifier/verifier.h"
#include "neap/layers/catalog/default_catalog.h"
#include "neap/layers/devices/device_description.h"
#include "neap/memory/planner.h"
#include "neap/memory/policies/policies.h"
#include "tests/plan_script.h"
#include "tests/random_graph.h"

namespace neap {
namespace {

bool IsWait(const Action& action) { return std::holds_alternative<WaitAction>(action); }

// Without the action at `index`; those after it move up.
Plan Without(Plan plan, size_t index) {
  plan.actions.erase(plan.actions.begin() + static_cast<std::ptrdiff_t>(index));
  for (Action& action : plan.actions) {
    auto* wait = std::get_if<WaitAction>(&action);
    if (wait != nullptr && wait->on > static_cast<int64_t>(index)) --wait->on;
  }
  return plan;
}

Plan WithoutWaits(Plan plan) {
  std::erase_if(plan.actions, IsWait);
  return plan;
}

// What streams do, without the bookkeeping in between; waits by what they are for.
std::vector<std::string> OnStreams(const Plan& plan) {
  std::vector<std::string> text;
  std::vector<std::string> by_action;
  for (const Action& action : plan.actions) {
    std::string& name = by_action.emplace_back();
    if (const auto* compute = std::get_if<ComputeAction>(&action)) {
      name = StepName(plan.steps[compute->step.index()]);
    } else if (const auto* offload = std::get_if<OffloadAction>(&action)) {
      name = "offload " + plan.tensors[offload->tensor.index()].name;
    } else if (const auto* prefetch = std::get_if<PrefetchAction>(&action)) {
      name = "prefetch " + plan.tensors[prefetch->tensor.index()].name;
    } else if (const auto* wait = std::get_if<WaitAction>(&action)) {
      name = std::string(Name(wait->stream)) + " waits for " +
             by_action[static_cast<size_t>(wait->on)];
    }
    if (!name.empty()) text.push_back(name);
  }
  return text;
}

TEST_CASE("a plan on one stream has no waits") {
  for (const char* script : {kPlainPlan, kInPlacePlan, kRecomputePlan}) {
    const Plan plan = PlanFromScript(script);
    CHECK(WithWaits(plan) == plan.actions);
  }
}

TEST_CASE("the waits of hand-written plans are found again, none more") {
  for (const char* script : {kTransferPlan, kPersistentTransferPlan, kPoolsPlan, kResidentPlan,
                             kSumPlan, kForwardSumPlan, kShardPlan}) {
    const Plan plan = PlanFromScript(script);
    Plan found = WithoutWaits(plan);
    found.actions = WithWaits(found);
    CHECK(OnStreams(found) == OnStreams(plan));
  }
}

TEST_CASE("bytes that nobody moves from or to are reused without a wait") {
  //   6 |        c c            c takes other bytes than the leaving a's, so compute need not wait
  //   4 |    b b b g g g g      for the offload; the prefetch waits for it, and for f2, which has
  //   2 | a a a       a a       read the bytes that it fills
  Plan plan = PlanFromScript(Edited(Edited(kTransferPlan, "alloc c 2", "alloc c 6"),
                                    "budget 6 arena 6", "budget 8 arena 8"));
  plan.actions = WithWaits(WithoutWaits(plan));
  const auto waits_of_compute =
      std::count_if(plan.actions.begin(), plan.actions.end(), [](const Action& action) {
        const auto* wait = std::get_if<WaitAction>(&action);
        return wait != nullptr && wait->stream == Stream::kCompute;
      });
  CHECK(waits_of_compute == 1);  // for the prefetch
  CHECK(std::count_if(plan.actions.begin(), plan.actions.end(), IsWait) == 4);
}

TEST_CASE("bytes of a pool are filled again only once they have been read") {
  const auto waits_for_y = [](std::string_view script) {
    Plan plan = WithoutWaits(PlanFromScript(script));
    plan.actions = WithWaits(plan);
    CHECK(Verify(plan).message() == "");
    const std::vector<std::string> found = OnStreams(plan);
    return std::count(found.begin(), found.end(), "d2h waits for prefetch y");
  };
  CHECK(waits_for_y(kPoolsPlan) == 1);
  const std::string beside = Edited(Edited(kPoolsPlan, "away: offload x 0", "away: offload x 3"),
                                    "host_pool 3", "host_pool 5");
  CHECK(waits_for_y(beside) == 0);
}

// Every wait is needed: the verifier refuses the plan without it.
void CheckWaits(const Plan& plan) {
  REQUIRE(Verify(plan).ok());
  for (size_t i = 0; i < plan.actions.size(); ++i) {
    if (!IsWait(plan.actions[i])) continue;
    CAPTURE(i);
    REQUIRE(!Verify(Without(plan, i)).ok());
  }
}

TEST_CASE("random networks under every policy that moves tensors: no wait could be left out") {
  DefaultCatalog catalog;
  const DeviceDescription device = DescribedDevice("h200").value();
  for (uint32_t seed = 0; seed < testing::RandomSeeds(120); ++seed) {
    CAPTURE(seed);
    const Program program = BuildProgram(testing::RandomGraph(seed), {}).value();
    const Policy& policy = Policies()[seed % Policies().size()];
    CAPTURE(std::string(policy.name));
    PlannerOptions options = {.policy = std::string(policy.name)};
    const PlanResult roomy = MakePlan(program, options, device, catalog).value();
    options.budget_bytes = roomy.stats.minimum_budget_bytes;
    CheckWaits(MakePlan(program, options, device, catalog)->plan);
    options.budget_bytes = (options.budget_bytes + roomy.plan.peak_bytes) / 2;
    CheckWaits(MakePlan(program, options, device, catalog)->plan);
  }
}

}  // namespace
}  // namespace neap

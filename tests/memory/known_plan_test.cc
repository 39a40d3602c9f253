#include "neap/memory/known_plan.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>

#include "neap/core/program/passes.h"
#include "neap/layers/catalog/default_catalog.h"
#include "neap/memory/planner.h"
#include "neap/nets/registry.h"
#include "tests/memory/planning.h"

namespace neap {
namespace {

using testing::H200;

TEST_CASE("a known plan answers an equal request, and the planner all others") {
  DefaultCatalog catalog;
  const Graph graph = nets::Build("lenet", {.batch = 32}).value();
  int lowered = 0;
  const auto lower = [&](const ProgramChoice& choice) {
    ++lowered;
    return Lower(graph,
                 {.offload_params = choice.offload_params, .sub_batches = choice.sub_batches},
                 H200());
  };
  const int64_t least = MinimumBudget(lower({}).value(), {}, H200(), catalog).value();
  const PlannerOptions options = {.budget_bytes = least + least / 8, .policy = "auto"};
  const std::shared_ptr<const Planner> planner = PlannerFor(options);
  const PlanRequest request = {.budget_bytes = options.budget_bytes};
  const ChosenProgram chosen = planner->Choose(lower, request, H200(), catalog).value();
  REQUIRE(chosen.plan.has_value());

  const std::shared_ptr<const Planner> known = WithKnownPlan(planner, request, chosen);
  lowered = 0;
  const ChosenProgram again = known->Choose(lower, request, H200(), catalog).value();
  CHECK(lowered == 0);
  CHECK(again.choice == chosen.choice);
  CHECK(again.plan->plan == chosen.plan->plan);

  const PlanRequest larger = {.budget_bytes = 2 * least};
  const ChosenProgram other = known->Choose(lower, larger, H200(), catalog).value();
  CHECK(lowered > 0);
  CHECK(other.choice == planner->Choose(lower, larger, H200(), catalog)->choice);
  CHECK(known->budget_bytes() == options.budget_bytes);
  const Program program = lower(chosen.choice).value();
  CHECK(known->Plan(program, larger, H200(), catalog)->plan ==
        planner->Plan(program, larger, H200(), catalog)->plan);
  CHECK(known->MinimumBudget(program, larger, H200(), catalog).value() ==
        planner->MinimumBudget(program, larger, H200(), catalog).value());
}

}  // namespace
}  // namespace neap

// The promises of planner.h over random networks: every budget from the reported minimum up is met,
// and limits of time and quick searches keep to theirs.
#include <doctest/doctest.h>

#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/verifier/verifier.h"
#include "neap/layers/catalog/default_catalog.h"
#include "neap/memory/planner.h"
#include "neap/memory/policies/policies.h"
#include "tests/memory/engines/workspace_catalog.h"
#include "tests/memory/planning.h"
#include "tests/random_graph.h"

namespace neap {
namespace {

using testing::H200;

// The promises of planner.h, for one program and one choice of options.
int64_t CheckPlans(const Program& program, PlannerOptions options, EngineCatalog& catalog) {
  const DeviceDescription device = H200();
  const absl::StatusOr<PlanResult> roomy = MakePlan(program, options, device, catalog);
  REQUIRE(roomy.ok());
  const int64_t minimum = roomy->stats.minimum_budget_bytes;
  REQUIRE(roomy->stats.placement_lower_bound <= minimum);
  REQUIRE(minimum <= roomy->plan.peak_bytes);

  // Between the smallest budget and what it takes when bytes are no object.
  for (const int64_t budget :
       {minimum, minimum + 1, (minimum + roomy->plan.peak_bytes) / 2, roomy->plan.peak_bytes}) {
    CAPTURE(budget);
    options.budget_bytes = budget;
    const absl::StatusOr<PlanResult> result = MakePlan(program, options, device, catalog);
    REQUIRE(result.ok());
    REQUIRE(result->plan.peak_bytes <= budget);
    REQUIRE(result->plan.arena_bytes == result->plan.peak_bytes);
    REQUIRE(result->stats.minimum_budget_bytes == minimum);
    const absl::Status verified = Verify(result->plan);
    CAPTURE(verified.ToString());
    REQUIRE(verified.ok());
    const absl::Status matches = MatchesProgram(result->plan, program);
    CAPTURE(matches.ToString());
    REQUIRE(matches.ok());
  }
  options.budget_bytes = minimum - kBlockBytes;
  const absl::Status refused = MakePlan(program, options, device, catalog).status();
  REQUIRE(refused.code() == absl::StatusCode::kResourceExhausted);
  REQUIRE(std::string(refused.message()).find(absl::StrCat(" ", minimum, " bytes")) !=
          std::string::npos);
  return minimum;
}

void CheckAllPlans(uint32_t seed, const Program& program, EngineCatalog& catalog) {
  CAPTURE(seed);
  for (const bool in_place : {true, false}) {
    CAPTURE(in_place);
    // Placements take turns over the seeds; of the policies the naive ones always, the others in
    // turn.
    const PlacementMethod placement = kPlacementMethods[seed % std::size(kPlacementMethods)];
    CAPTURE(std::string(Name(placement)));
    std::vector<int64_t> minimum;
    for (size_t i = 0; i < Policies().size(); ++i) {
      if (i > 1 && (i + seed) % 4 != 0) continue;
      const std::string policy(Policies()[i].name);
      CAPTURE(policy);
      const EvictionRule eviction = seed % 2 == 0 ? EvictionRule::kLru : EvictionRule::kBelady;
      minimum.push_back(CheckPlans(
          program,
          {.policy = policy, .placement = placement, .eviction = eviction, .in_place = in_place},
          catalog));
    }
    REQUIRE(minimum[1] <= minimum[0]);
  }
}

TEST_CASE(
    "random networks: every budget from the reported minimum up is met, one block less is "
    "refused") {
  const uint32_t seeds = testing::RandomSeeds(150);
  MESSAGE("seeds 1 to ", seeds);
  DefaultCatalog catalog;
  for (uint32_t seed = 1; seed <= seeds; ++seed) {
    CheckAllPlans(seed, BuildProgram(testing::RandomGraph(seed), {}).value(), catalog);
  }
}

TEST_CASE(
    "random networks whose convolutions choose among workspaces: every budget from the minimum up "
    "is "
    "met") {
  const uint32_t end = 501 + testing::RandomSeeds(48);
  MESSAGE("seeds 501 to ", end - 1);
  testing::WorkspaceCatalog catalog;
  for (uint32_t seed = 501; seed < end; ++seed) {
    CheckAllPlans(seed, BuildProgram(testing::RandomGraph(seed), {}).value(), catalog);
  }
}

TEST_CASE("random networks in inference: every budget from the reported minimum up is met") {
  const uint32_t end = 651 + testing::RandomSeeds(48);
  MESSAGE("seeds 651 to ", end - 1);
  testing::WorkspaceCatalog catalog;
  for (uint32_t seed = 651; seed < end; ++seed) {
    const Program program =
        BuildProgram(testing::RandomGraph(seed), {.mode = Mode::kInference}).value();
    CheckAllPlans(seed, program, catalog);
  }
}

// Calls `check(program, options, plan)` for random networks in budgets from the smallest up.
template <typename Check>
void InBudgets(EngineCatalog& catalog, const Check& check) {
  for (uint32_t seed = 0; seed < testing::RandomSeeds(2); ++seed) {
    CAPTURE(seed);
    const Program program = BuildProgram(testing::RandomGraph(seed), {}).value();
    const PlanResult roomy = MakePlan(program, {.policy = "auto"}, H200(), catalog).value();
    const int64_t least = roomy.stats.minimum_budget_bytes;
    for (const int64_t part : {0, 1, 2, 4}) {
      CAPTURE(part);
      const PlannerOptions options = {
          .budget_bytes = least + (roomy.plan.peak_bytes - least) * part / 4, .policy = "auto"};
      check(program, options, MakePlan(program, options, H200(), catalog).value());
    }
  }
}

TEST_CASE("a plan below a limit of time is the plan without one; a lower limit has none") {
  DefaultCatalog catalog;
  InBudgets(
      catalog, [&](const Program& program, const PlannerOptions& options, const PlanResult& plan) {
        const double ms = testing::IterationMs(plan);
        const auto below = [&](double limit_ms) {
          PlanAttempt attempt = AttemptPlan(limit_ms, program, options, H200(), catalog).value();
          CHECK(attempt.refusal.ok());
          return attempt.plan;
        };
        const std::optional<PlanResult> found = below(1.001 * ms);
        REQUIRE(found.has_value());
        CHECK(found->plan == plan.plan);
        CHECK(!below(0.999 * ms).has_value());
      });
}

TEST_CASE("a quick plan fits, and the full search finds no slower one") {
  DefaultCatalog catalog;
  InBudgets(catalog, [&](const Program& program, PlannerOptions options, const PlanResult& full) {
    options.quick = true;
    const PlanResult quick = MakePlan(program, options, H200(), catalog).value();
    CHECK(Verify(quick.plan).ok());
    CHECK(quick.plan.peak_bytes <= options.budget_bytes);
    CHECK(quick.stats.minimum_budget_bytes == full.stats.minimum_budget_bytes);
    CHECK(testing::IterationMs(quick) >= testing::IterationMs(full) * (1 - 1e-9));
  });
}

}  // namespace
}  // namespace neap

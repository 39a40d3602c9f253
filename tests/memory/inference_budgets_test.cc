// Plans for inference in budgets at and just above the smallest that is stated: the results of all
// sub-batches are kept until the iteration has ended.
#include <doctest/doctest.h>

#include <cstdint>
#include <iterator>
#include <string>

#include "neap/core/program/passes.h"
#include "neap/core/verifier/verifier.h"
#include "neap/layers/catalog/default_catalog.h"
#include "neap/layers/devices/device_description.h"
#include "neap/memory/planner.h"
#include "neap/memory/policies/policies.h"
#include "tests/random_graph.h"

namespace neap {
namespace {

constexpr uint32_t kSeeds = 6;
constexpr int64_t kBatch = 6;
constexpr int64_t kBlocksAbove[] = {0, 1, 2, 5, 12};

void CheckAtMinimum(const Program& program, const PlannerOptions& options,
                    const DeviceDescription& device, EngineCatalog& catalog) {
  const int64_t minimum = MinimumBudget(program, options, device, catalog).value();
  for (const int64_t bytes : {minimum - 1, minimum}) {
    PlannerOptions budgeted = options;
    budgeted.budget_bytes = bytes;
    CHECK(FitsBudget(program, budgeted, device, catalog).value() == (bytes == minimum));
  }
  for (const int64_t blocks : kBlocksAbove) {
    PlannerOptions budgeted = options;
    budgeted.budget_bytes = minimum + blocks * kBlockBytes;
    CAPTURE(budgeted.budget_bytes);
    const absl::StatusOr<PlanResult> planned = MakePlan(program, budgeted, device, catalog);
    REQUIRE(planned.ok());
    CHECK(planned->stats.minimum_budget_bytes == minimum);
    CHECK(planned->plan.arena_bytes <= budgeted.budget_bytes);
    CHECK(Verify(planned->plan).message() == "");
    CHECK(MatchesProgram(planned->plan, program).message() == "");
  }
}

TEST_CASE("inference in parts fits every budget from the stated minimum on, by every policy") {
  const DeviceDescription device = DescribedDevice("h200").value();
  DefaultCatalog catalog;
  for (uint32_t seed = 0; seed < testing::RandomSeeds(kSeeds); ++seed) {
    const Graph graph = testing::RandomGraph(seed, {.batch = kBatch, .batch_norm = false});
    for (const int64_t sub_batches : {2, 3}) {
      const Program program =
          Lower(graph, {.mode = Mode::kInference, .sub_batches = sub_batches}, device).value();
      for (const Policy& policy : Policies()) {
        const PlacementMethod placement = kPlacementMethods[seed % std::size(kPlacementMethods)];
        CAPTURE(seed);
        CAPTURE(sub_batches);
        CAPTURE(policy.name);
        CAPTURE(std::string(Name(placement)));
        CheckAtMinimum(program, {.policy = std::string(policy.name), .placement = placement},
                       device, catalog);
      }
    }
  }
}

}  // namespace
}  // namespace neap

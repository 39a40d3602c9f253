#include "neap/memory/policies/auto.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "neap/core/plan/plan_memory.h"
#include "neap/core/program/passes.h"
#include "neap/core/verifier/verifier.h"
#include "neap/layers/catalog/default_catalog.h"
#include "neap/layers/convolution.h"
#include "neap/memory/planner.h"
#include "neap/nets/registry.h"
#include "tests/layers/made_up_timings.h"
#include "tests/memory/engines/workspace_catalog.h"
#include "tests/memory/planning.h"
#include "tests/random_graph.h"

namespace neap {
namespace {

using testing::H200;
using testing::IterationMs;

// The policies whose candidates `auto` tries too.
constexpr const char* kContained[] = {"liveness", "tensor-cache", "superneurons", "chen"};

// At `parts` + 1 budgets between the least of all and enough for liveness, and at the least of each
// policy.
void CheckContains(const Program& program, EngineCatalog& catalog, PlacementMethod placement,
                   int parts) {
  const auto plan = [&](const char* policy, int64_t budget) {
    return MakePlan(program, {.budget_bytes = budget, .policy = policy, .placement = placement},
                    H200(), catalog);
  };
  const PlanResult natural = plan("auto", kUnlimited).value();
  const int64_t least = natural.stats.minimum_budget_bytes;
  std::vector<int64_t> budgets;
  for (int part = 0; part <= parts; ++part)
    budgets.push_back(least + (natural.plan.peak_bytes - least) * part / parts);
  for (const char* policy : kContained) {
    CAPTURE(policy);
    budgets.push_back(plan(policy, kUnlimited)->stats.minimum_budget_bytes);
    CHECK(least <= budgets.back());
  }
  for (const int64_t budget : budgets) {
    CAPTURE(budget);
    const PlanResult result = plan("auto", budget).value();
    REQUIRE(Verify(result.plan).ok());
    REQUIRE(result.plan.peak_bytes <= budget);
    for (const char* policy : kContained) {
      CAPTURE(policy);
      const absl::StatusOr<PlanResult> other = plan(policy, budget);
      if (other.ok()) REQUIRE(IterationMs(result) <= IterationMs(*other) * (1 + 1e-12));
    }
  }
}

TEST_CASE("networks: auto needs no more memory than the policies it contains, and no more time") {
  DefaultCatalog catalog;
  for (const char* net : {"resnet20", "alexnet"}) {
    CAPTURE(net);
    const Graph graph = nets::Build(net, {.batch = 16}).value();
    CheckContains(Lower(graph, {}, H200()).value(), catalog, PlacementMethod::kOffline, 2);
  }
}

TEST_CASE("random networks: auto needs no more memory than those policies, and no more time") {
  DefaultCatalog none;
  testing::WorkspaceCatalog workspaces;
  for (uint32_t seed = 0; seed < testing::RandomSeeds(24); ++seed) {
    CAPTURE(seed);
    const Graph graph = testing::RandomGraph(seed, {.batch = seed % 4 < 2 ? 2 : 64,
                                                    .residual = seed % 3 == 0,
                                                    .dense = seed % 3 == 1,
                                                    .ports = seed % 5 == 1});
    EngineCatalog& catalog = seed % 2 == 0 ? static_cast<EngineCatalog&>(none) : workspaces;
    CheckContains(Lower(graph, {}, H200()).value(), catalog,
                  seed % 8 < 4 ? PlacementMethod::kOffline : PlacementMethod::kFirstFit, 3);
  }
}

// Convolutions have no engine that gives the same bits twice.
class UnstableConvolutions final : public EngineCatalog {
 public:
  absl::StatusOr<std::vector<Engine>> Engines(const StepSignature& signature) override {
    const bool unstable =
        IsOfLayer(signature.phase) && signature.layer.As<Convolution>() != nullptr;
    return std::vector<Engine>{{.id = unstable ? "unstable" : "", .deterministic = !unstable}};
  }
  std::string Versions() const override { return ""; }
};

TEST_CASE(
    "orders that would rerun what gives other bits are left out, and the others are planned") {
  const Graph graph = nets::Build("resnet20", {.batch = 32}).value();
  const Program program = Lower(graph, {}, H200()).value();
  UnstableConvolutions catalog;
  const auto timings = std::make_shared<testing::MadeUpTimings>(
      std::vector<TimedEngine>{{"unstable", 32, 0, 1e-4, /*deterministic=*/false}});
  PlannerOptions options = {.policy = "auto",
                            .kernels = {.timings = timings, .deterministic = false}};
  const PlanResult natural = MakePlan(program, options, H200(), catalog).value();
  options.budget_bytes = natural.plan.peak_bytes / 2;
  const absl::StatusOr<PlanResult> half = MakePlan(program, options, H200(), catalog);
  REQUIRE_MESSAGE(half.ok(), half.status().ToString());
  CHECK(TotalMovement(half->plan).offloaded_bytes + TotalMovement(half->plan).extra_forwards > 0);
}

TEST_CASE("ResNet-50 in half and in a third of its memory: a third of superneurons' time") {
  DefaultCatalog catalog;
  const Graph graph =
      nets::Build("resnet50",
                  {.batch = 256, .dtype = DType::kBf16, .layout = Layout::kChannelsLast})
          .value();
  const Program program = Lower(graph, {}, H200()).value();
  const auto plan = [&](const char* policy, int64_t budget) {
    return MakePlan(program, {.budget_bytes = budget, .policy = policy}, H200(), catalog).value();
  };
  const PlanResult natural = plan("auto", kUnlimited);
  const double full_ms = natural.plan.predicted_ms;
  const PlanResult half = plan("auto", natural.plan.peak_bytes / 2);
  const PlanResult third = plan("auto", natural.plan.peak_bytes / 3);
  CHECK(half.plan.predicted_ms < 1.12 * full_ms);
  CHECK(third.plan.predicted_ms < 1.2 * full_ms);
  CHECK(half.plan.predicted_ms <
        plan("superneurons", half.plan.budget_bytes).plan.predicted_ms / 3);
  CHECK(TotalMovement(third.plan).extra_forwards > TotalMovement(half.plan).extra_forwards);
}

}  // namespace
}  // namespace neap

#include "neap/memory/search/plan_search.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "neap/core/plan/plan_memory.h"
#include "neap/core/program/passes.h"
#include "neap/core/step/step_signature.h"
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
using testing::IterationMs;

TEST_CASE("a policy acts on need if it may evict all tensors, and only then") {
  for (const Policy& policy : Policies()) {
    CAPTURE(std::string(policy.name));
    CHECK(policy.needs_based() == (policy.name == "tensor-cache" || policy.name == "superneurons" ||
                                   policy.name == "modnn" || policy.name == "auto"));
  }
}

TEST_CASE("random networks with room for all: acting on need does what liveness does, no more") {
  DefaultCatalog catalog;
  for (uint32_t seed = 0; seed < testing::RandomSeeds(50); ++seed) {
    CAPTURE(seed);
    const Program program =
        BuildProgram(testing::RandomGraph(seed, {.ports = seed % 2 == 1}), {}).value();
    const Plan liveness = MakePlan(program, {}, H200(), catalog)->plan;
    const int64_t natural = liveness.peak_bytes;
    for (const int64_t budget : {natural, natural + kBlockBytes, 2 * natural, kUnlimited}) {
      CAPTURE(budget);
      const Plan reference =
          MakePlan(program, {.budget_bytes = budget, .policy = "liveness"}, H200(), catalog)->plan;
      for (const char* policy : {"tensor-cache", "superneurons", "auto"}) {
        CAPTURE(policy);
        const Plan plan =
            MakePlan(program, {.budget_bytes = budget, .policy = policy}, H200(), catalog)->plan;
        REQUIRE(plan.actions == reference.actions);
      }
    }
  }
}

TEST_CASE("random networks short of a block: something moves or is rebuilt, and the rest stays") {
  DefaultCatalog catalog;
  int compared = 0;
  for (uint32_t seed = 0; seed < testing::RandomSeeds(50); ++seed) {
    CAPTURE(seed);
    const Program program =
        BuildProgram(testing::RandomGraph(seed, {.ports = seed % 2 == 1}), {}).value();
    const PlanResult liveness = MakePlan(program, {}, H200(), catalog).value();
    const int64_t budget = liveness.stats.placement_lower_bound - kBlockBytes;
    for (const char* policy : {"tensor-cache", "superneurons", "auto"}) {
      CAPTURE(policy);
      const auto short_of_it =
          MakePlan(program, {.budget_bytes = budget, .policy = policy}, H200(), catalog);
      if (!short_of_it.ok()) continue;  // all of it is one step's working set
      ++compared;
      REQUIRE(Verify(short_of_it->plan).ok());
      const Movement movement = TotalMovement(short_of_it->plan);
      CHECK(movement.prefetched_bytes + movement.extra_forwards > 0);
    }
  }
  CHECK(compared >= static_cast<int>(testing::RandomSeeds(50)));  // of twice as many
}

TEST_CASE("random networks: with some bytes more than the smallest budget no policy is slower") {
  DefaultCatalog catalog;
  for (uint32_t seed = 0; seed < testing::RandomSeeds(40); ++seed) {
    CAPTURE(seed);
    const Program program =
        BuildProgram(testing::RandomGraph(seed, {.max_blocks = 3, .ports = seed % 2 == 1}), {})
            .value();
    for (const Policy& policy : Policies()) {
      CAPTURE(std::string(policy.name));
      const auto plan = [&](int64_t budget) {
        return MakePlan(program, {.budget_bytes = budget, .policy = std::string(policy.name)},
                        H200(), catalog)
            .value();
      };
      const int64_t least = plan(kUnlimited).stats.minimum_budget_bytes;
      const double slowest_ms = IterationMs(plan(least));
      for (const int64_t more : {1, 20})
        CHECK(IterationMs(plan(least + more * kBlockBytes)) <= slowest_ms * 1.000001);
    }
  }
}

TEST_CASE("superneurons needs no more than the tensor cache, which is one of its choices") {
  DefaultCatalog catalog;
  for (uint32_t seed = 0; seed < testing::RandomSeeds(50); ++seed) {
    CAPTURE(seed);
    const Program program =
        BuildProgram(testing::RandomGraph(seed, {.ports = seed % 2 == 1}), {}).value();
    const auto plan = [&](const char* policy, int64_t budget) {
      return MakePlan(program, {.budget_bytes = budget, .policy = policy}, H200(), catalog).value();
    };
    const PlanResult cache = plan("tensor-cache", kUnlimited);
    const PlanResult both = plan("superneurons", kUnlimited);
    REQUIRE(both.stats.minimum_budget_bytes <= cache.stats.minimum_budget_bytes);
    // Where both can, it is as fast.
    const int64_t tight = cache.stats.minimum_budget_bytes;
    CHECK(IterationMs(plan("superneurons", tight)) <=
          IterationMs(plan("tensor-cache", tight)) * 1.000001);
  }
}

TEST_CASE("random networks: the farther the budget from the natural peak, the more moves") {
  DefaultCatalog catalog;
  DeviceDescription device = H200();
  device.has_own_memory =
      false;  // the bytes of the incoming batch would go to tensors at some point
  for (uint32_t seed = 0; seed < testing::RandomSeeds(30); ++seed) {
    CAPTURE(seed);
    const Program program =
        BuildProgram(testing::RandomGraph(seed, {.ports = seed % 2 == 1}), {}).value();
    const PlanResult roomy = MakePlan(program, {.policy = "tensor-cache"}, device, catalog).value();
    const int64_t minimum = roomy.stats.minimum_budget_bytes;
    const int64_t natural = roomy.plan.peak_bytes;
    int64_t moved = -1;
    for (int64_t quarter = 4; quarter >= 0; --quarter) {
      const int64_t budget = minimum + (natural - minimum) * quarter / 4;
      const Plan plan =
          MakePlan(program, {.budget_bytes = budget, .policy = "tensor-cache"}, device, catalog)
              ->plan;
      const Movement movement = TotalMovement(plan);
      CAPTURE(quarter);
      CHECK(movement.offloaded_bytes >= moved);
      moved = movement.offloaded_bytes;
    }
  }
}

// The times that are predicted for budgets from the least to what it takes to keep everything, the
// waits for reused bytes of the pools included.
std::vector<double> IterationTimes(const Program& program, EngineCatalog& catalog,
                                   PlannerOptions options, int parts) {
  const PlanResult roomy = MakePlan(program, options, H200(), catalog).value();
  const int64_t minimum = roomy.stats.minimum_budget_bytes;
  const int64_t natural = roomy.plan.peak_bytes;
  std::vector<double> times;
  for (int part = 0; part <= parts; ++part) {
    options.budget_bytes = minimum + (natural - minimum) * part / parts;
    times.push_back(IterationMs(MakePlan(program, options, H200(), catalog).value()));
  }
  return times;
}

// Sums are rounded.
void CheckNeverSlower(const std::vector<double>& times) {
  for (size_t i = 1; i < times.size(); ++i) {
    CAPTURE(i);
    CHECK(times[i] <= times[i - 1] * (1 + 1e-12));
  }
}

TEST_CASE("random networks: with a larger budget, a plan is never slower") {
  DefaultCatalog catalog;
  for (uint32_t seed = 0; seed < testing::RandomSeeds(7); ++seed) {
    CAPTURE(seed);
    const Program program =
        BuildProgram(testing::RandomGraph(seed, {.ports = seed % 2 == 1}), {}).value();
    for (const char* policy : {"tensor-cache", "superneurons", "auto"}) {
      CAPTURE(policy);
      CheckNeverSlower(IterationTimes(program, catalog, {.policy = policy}, 8));
    }
  }
}

// Convolutions are faster in as many bytes of workspace as their last operand has, or half of them,
// by the order of the engines: nothing was measured.
class OrderedCatalog final : public EngineCatalog {
 public:
  absl::StatusOr<std::vector<Engine>> Engines(const StepSignature& signature) override {
    if (!IsDivisible(signature)) return std::vector<Engine>{{.id = "only"}};
    const int64_t bytes = signature.operands.back().tensor.size_bytes();
    return std::vector<Engine>{{.id = "fast", .workspace_bytes = bytes},
                               {.id = "medium", .workspace_bytes = bytes / 2},
                               {.id = "small"}};
  }
  std::string Versions() const override { return ""; }
};

// Where everything just fits, but not the workspaces of the fastest engines, it may be faster to
// move tensors behind computation, as in smaller budgets.
TEST_CASE("a plan is never slower in a budget in which nothing has to move any more") {
  OrderedCatalog catalog;
  const Program program = Lower(*nets::Build("alexnet", {.batch = 256}), {}, H200()).value();
  for (const char* policy : {"tensor-cache", "superneurons", "auto"}) {
    CAPTURE(policy);
    CheckNeverSlower(IterationTimes(program, catalog, {.policy = policy}, 30));
  }
}

}  // namespace
}  // namespace neap

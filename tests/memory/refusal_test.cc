// What a refusal for lack of memory says: a policy that it names can be planned.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/plan/plan_memory.h"
#include "neap/layers/catalog/default_catalog.h"
#include "neap/layers/devices/device_description.h"
#include "neap/memory/planner.h"
#include "neap/memory/policies/policies.h"
#include "neap/nets/registry.h"
#include "tests/random_graph.h"

namespace neap {
namespace {

class Planning {
 public:
  explicit Planning(const Graph& net) : program_(BuildProgram(net, {}).value()) {}

  absl::StatusOr<PlanResult> Plan(const PlannerOptions& options) {
    return MakePlan(program_, options, device_, catalog_);
  }
  PlanResult Planned(const PlannerOptions& options) {
    absl::StatusOr<PlanResult> result = Plan(options);
    REQUIRE_MESSAGE(result.ok(), result.status().ToString());
    return *std::move(result);
  }
  int64_t Minimum(const std::string& policy) {
    return MinimumBudget(program_, {.policy = policy}, device_, catalog_).value();
  }
  std::string Refusal(const PlannerOptions& options) {
    const absl::Status refused = Plan(options).status();
    REQUIRE_MESSAGE(refused.code() == absl::StatusCode::kResourceExhausted, refused.ToString());
    return std::string(refused.message());
  }

 private:
  Program program_;
  DeviceDescription device_ = DescribedDevice("h200").value();
  DefaultCatalog catalog_;
};

// The policy that the refusal names; empty if it names none.
std::string NamedPolicy(const std::string& refusal) {
  const std::string before = "; policy ";
  const size_t begin = refusal.find(before);
  if (begin == std::string::npos) return "";
  const size_t name = begin + before.size();
  return refusal.substr(name, refusal.find(" fits", name) - name);
}

TEST_CASE("a budget that is too small for a policy names auto if that can be planned") {
  Planning planning(testing::RandomGraph(1));
  const int64_t least = planning.Minimum("auto");
  REQUIRE(least < planning.Minimum("liveness"));
  const auto refusal = [&](int64_t budget, const std::string& policy) {
    return planning.Refusal({.budget_bytes = budget, .policy = policy});
  };
  CHECK(refusal(least, "liveness")
            .find(absl::StrCat("; policy auto fits, also in ", least, " bytes (")) !=
        std::string::npos);
  CHECK(NamedPolicy(planning.Refusal(
                        {.budget_bytes = least, .policy = "liveness", .suggest_policy = false}))
            .empty());
  CHECK(NamedPolicy(refusal(least - kBlockBytes, "liveness")).empty());
  CHECK(NamedPolicy(refusal(least - kBlockBytes, "auto")).empty());
  CHECK(NamedPolicy(refusal(least - kBlockBytes, "")).empty());
}

TEST_CASE("policy auto is named if it fits the host budget, too, and only then") {
  Planning planning(*nets::Build("resnet-cifar", {.batch = 64, .depth = 20}));
  const auto named = [&](int64_t budget, int64_t host_budget, const std::string& policy) {
    return NamedPolicy(planning.Refusal(
        {.budget_bytes = budget, .host_budget_bytes = host_budget, .policy = policy}));
  };
  const int64_t liveness = planning.Minimum("liveness");
  const int64_t chen = planning.Minimum("chen");
  const int64_t least = planning.Minimum("auto");
  REQUIRE(least < chen);
  REQUIRE(chen < liveness);
  // It moves nothing where that is not needed, and rebuilds where chen does.
  CHECK(named(liveness, kMiB, "vdnn-all") == "auto");
  CHECK(named(chen, kMiB, "vdnn-all") == "auto");
  CHECK(named(least, kMiB, "liveness").empty());
  CHECK(named(least, kUnlimited, "liveness") == "auto");
  CHECK(named(least, kMiB, "auto").empty());
}

TEST_CASE("a host budget is a bound of the search, not only a reason to refuse") {
  // In this budget the fastest plan moves more than the host has room for, and a slower one not.
  Planning planning(*nets::Build("resnet-cifar", {.batch = 64, .depth = 20}));
  const PlannerOptions free = {.budget_bytes = planning.Minimum("chen"), .policy = "superneurons"};
  const PlanResult any = planning.Planned(free);
  REQUIRE(any.plan.host_pool_bytes > 0);
  PlannerOptions bounded = free;
  bounded.policy = "auto";
  bounded.host_budget_bytes = 0;
  const PlanResult none = planning.Planned(bounded);
  CHECK(none.plan.host_pool_bytes == 0);
  CHECK(TotalMovement(none.plan).extra_forwards > 0);
}

TEST_CASE("random networks: whatever policy a refusal names, the same options can be planned") {
  int named = 0;
  const uint32_t seeds = testing::RandomSeeds(4);
  for (uint32_t seed = 1; seed <= seeds; ++seed) {
    CAPTURE(seed);
    Planning planning(testing::RandomGraph(seed));
    const int64_t least = planning.Minimum("auto");
    const int64_t most = planning.Minimum("liveness");
    for (size_t i = 0; i < 8; ++i) {
      PlannerOptions options = {
          .budget_bytes = least + (most - least) * static_cast<int64_t>(i % 4) / 4,
          .host_budget_bytes = i < 4 ? kUnlimited : 4 * kBlockBytes,
          .policy = std::string(Policies()[(seed + i) % Policies().size()].name)};
      CAPTURE(options.policy);
      CAPTURE(options.budget_bytes);
      const absl::Status refused = planning.Plan(options).status();
      if (refused.ok()) continue;
      REQUIRE(refused.code() == absl::StatusCode::kResourceExhausted);
      options.policy = NamedPolicy(std::string(refused.message()));
      if (options.policy.empty()) continue;
      ++named;
      planning.Planned(options);
    }
  }
  CHECK(named >= static_cast<int>(seeds));
}

TEST_CASE("without a policy's name a plan is by auto in a budget, else by liveness") {
  Planning planning(testing::RandomGraph(1));
  CHECK(DefaultPolicy(/*has_budget=*/true) == "auto");
  CHECK(DefaultPolicy(/*has_budget=*/false) == "liveness");
  const PlanResult natural = planning.Planned({});
  CHECK(natural.plan.policy == "liveness");
  CHECK(natural.plan == planning.Planned({.policy = "liveness"}).plan);
  const int64_t least = planning.Minimum("auto");
  CHECK(planning.Minimum("") == least);
  REQUIRE(least < natural.stats.minimum_budget_bytes);
  const PlanResult tight = planning.Planned({.budget_bytes = least});
  CHECK(tight.plan.policy == "auto");
  CHECK(tight.plan == planning.Planned({.budget_bytes = least, .policy = "auto"}).plan);
  CHECK(TotalMovement(tight.plan).offloaded_bytes + TotalMovement(tight.plan).extra_forwards > 0);
}

TEST_CASE("a planner without a policy's name chooses by the budget of each request") {
  const Program program = BuildProgram(testing::RandomGraph(1), {}).value();
  const DeviceDescription device = DescribedDevice("h200").value();
  DefaultCatalog catalog;
  const std::shared_ptr<const Planner> planner = PlannerFor({});
  const int64_t least = planner->MinimumBudget(program, {}, device, catalog).value();
  CHECK(planner->Plan(program, {}, device, catalog)->plan.policy == "liveness");
  CHECK(planner->Plan(program, {.budget_bytes = least}, device, catalog)->plan.policy == "auto");
}

}  // namespace
}  // namespace neap

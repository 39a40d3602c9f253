// What a refusal for lack of memory says: a policy that it names can be planned.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/device/device_description.h"
#include "neap/core/plan/plan_memory.h"
#include "neap/layers/catalog/default_catalog.h"
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

TEST_CASE("a budget that is too small for a policy names superneurons if that can be planned") {
  Planning planning(testing::RandomGraph(1));
  const int64_t least = planning.Minimum("superneurons");
  REQUIRE(least < planning.Minimum("liveness"));
  const auto refusal = [&](int64_t budget, const std::string& policy) {
    return planning.Refusal({.budget_bytes = budget, .policy = policy});
  };
  CHECK(refusal(least, "liveness")
            .find(absl::StrCat("; policy superneurons fits: its smallest budget is ", least,
                               " bytes (")) != std::string::npos);
  CHECK(NamedPolicy(refusal(least - kBlockBytes, "liveness")).empty());
  CHECK(NamedPolicy(refusal(least - kBlockBytes, "superneurons")).empty());
  CHECK(NamedPolicy(refusal(least - kBlockBytes, "")).empty());
}

TEST_CASE("a policy that exceeds the host budget is not named") {
  Planning planning(*nets::Build("resnet-cifar", {.batch = 64, .depth = 20}));
  PlannerOptions options = {
      .budget_bytes = 20 * kMiB, .host_budget_bytes = kMiB, .policy = "liveness"};
  REQUIRE(planning.Minimum("superneurons") <= options.budget_bytes);
  CHECK(NamedPolicy(planning.Refusal(options)) != "superneurons");
  options.host_budget_bytes = kUnlimited;
  CHECK(NamedPolicy(planning.Refusal(options)) == "superneurons");
}

TEST_CASE("a host budget that is too small names a policy that moves nothing if one fits") {
  Planning planning(*nets::Build("resnet-cifar", {.batch = 64, .depth = 20}));
  const auto named = [&](int64_t budget, const std::string& policy) {
    return NamedPolicy(
        planning.Refusal({.budget_bytes = budget, .host_budget_bytes = kMiB, .policy = policy}));
  };
  const int64_t liveness = planning.Minimum("liveness");
  const int64_t chen = planning.Minimum("chen");
  REQUIRE(chen < liveness);
  CHECK(named(liveness, "vdnn-all") == "liveness");
  CHECK(named(liveness - kBlockBytes, "superneurons") == "chen");
  CHECK(named(chen, "vdnn-all") == "chen");
  CHECK(named(planning.Minimum("superneurons"), "superneurons").empty());
}

TEST_CASE("random networks: whatever policy a refusal names, the same options can be planned") {
  int named = 0;
  const uint32_t seeds = testing::RandomSeeds(10);
  for (uint32_t seed = 1; seed <= seeds; ++seed) {
    CAPTURE(seed);
    Planning planning(testing::RandomGraph(seed));
    const int64_t least = planning.Minimum("superneurons");
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

TEST_CASE("without a policy's name a plan is by superneurons in a budget, else by liveness") {
  Planning planning(testing::RandomGraph(1));
  CHECK(DefaultPolicy(/*has_budget=*/true) == "superneurons");
  CHECK(DefaultPolicy(/*has_budget=*/false) == "liveness");
  const PlanResult natural = planning.Planned({});
  CHECK(natural.plan.policy == "liveness");
  CHECK(natural.plan == planning.Planned({.policy = "liveness"}).plan);
  const int64_t least = planning.Minimum("superneurons");
  CHECK(planning.Minimum("") == least);
  REQUIRE(least < natural.stats.minimum_budget_bytes);
  const PlanResult tight = planning.Planned({.budget_bytes = least});
  CHECK(tight.plan.policy == "superneurons");
  CHECK(tight.plan == planning.Planned({.budget_bytes = least, .policy = "superneurons"}).plan);
  CHECK(TotalMovement(tight.plan).offloaded_bytes > 0);
}

TEST_CASE("a planner without a policy's name chooses by the budget of each request") {
  const Program program = BuildProgram(testing::RandomGraph(1), {}).value();
  const DeviceDescription device = DescribedDevice("h200").value();
  DefaultCatalog catalog;
  const std::shared_ptr<const Planner> planner = PlannerFor({});
  const int64_t least = planner->MinimumBudget(program, {}, device, catalog).value();
  CHECK(planner->Plan(program, {}, device, catalog)->plan.policy == "liveness");
  CHECK(planner->Plan(program, {.budget_bytes = least}, device, catalog)->plan.policy ==
        "superneurons");
}

}  // namespace
}  // namespace neap

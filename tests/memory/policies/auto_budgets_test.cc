// Policy `auto` on networks of all kinds, at many budgets: of the device, the host and the peer.
#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "neap/core/program/passes.h"
#include "neap/core/verifier/verifier.h"
#include "neap/memory/planner.h"
#include "neap/memory/policies/policies.h"
#include "neap/memory/search/plan_search.h"
#include "neap/nets/registry.h"
#include "tests/memory/finished_plan.h"
#include "tests/memory/one_engine.h"
#include "tests/memory/planning.h"

namespace neap {
namespace {

using testing::H200;
using testing::IterationMs;
using testing::OneEngine;

struct Net {
  const char* name;
  nets::NetOptions options;
  int budgets = 4;
  bool is_small = true;  // planned fast enough to be planned whole, several times
};
// Batches and images are small. Inception v4 has several times as many steps as the others, and so
// fewer budgets.
const Net kNets[] = {{"lenet", {.batch = 64}},
                     {"alexnet", {.batch = 16}},
                     {"vgg16", {.batch = 32, .image = 64}},
                     {"resnet20", {.batch = 32}, 4, false},
                     {"densenet-cifar", {.batch = 8, .depth = 13}},
                     {"unet", {.batch = 2, .image = 128}},
                     {"fcn8s", {.batch = 1, .image = 256}},
                     {"inception_v4", {.batch = 16, .image = 107}, 3, false}};

Program ProgramOf(const Net& net) {
  return Lower(nets::Build(net.name, net.options).value(), {}, H200()).value();
}

// `count` of them, from the least to the most.
std::vector<int64_t> Budgets(int64_t least, int64_t most, int64_t count) {
  std::vector<int64_t> budgets;
  for (int64_t i = 0; i < count; ++i) budgets.push_back(least + (most - least) * i / (count - 1));
  return budgets;
}

// The plans of a policy in any budget, of one search.
class Searched {
 public:
  Searched(const Program& program, const Policy& policy)
      : program_(program),
        options_({.policy = std::string(policy.name)}),
        device_(H200()),
        search_(PlanSearch::Create(program, policy, options_, device_, catalog_).value()),
        smallest_(search_.Smallest()) {}

  int64_t minimum() const { return smallest_.arena_bytes; }
  const PlanSearch& search() const { return search_; }
  Plan In(int64_t budget) const {
    return testing::FinishedPlan(program_, device_, search_.Best(smallest_, budget).value(),
                                 budget);
  }

 private:
  const Program& program_;
  const PlannerOptions options_;
  const DeviceDescription device_;
  OneEngine catalog_;
  const PlanSearch search_;
  const Candidate smallest_;
};

// The times of the plans, which do not grow with the budget.
std::vector<double> CheckAuto(const Searched& searched, const std::vector<int64_t>& budgets) {
  std::vector<double> times;
  for (const int64_t budget : budgets) {
    CAPTURE(budget);
    Plan plan = searched.In(budget);
    testing::FillTotals(plan);
    const absl::Status verified = Verify(plan);
    REQUIRE_MESSAGE(verified.ok(), verified.ToString());
    REQUIRE(plan.peak_bytes <= budget);
    CHECK(searched.search().TimeBoundUs(budget) <= 1e3 * plan.predicted_ms * (1 + 1e-12));
    if (!times.empty()) CHECK(plan.predicted_ms <= times.back() * (1 + 1e-12));
    times.push_back(plan.predicted_ms);
  }
  return times;
}

TEST_CASE("networks: auto is never slower in a larger budget, nor than other policies") {
  for (const Net& net : kNets) {
    CAPTURE(std::string(net.name));
    const Program program = ProgramOf(net);
    const Searched searched(program, FindPolicy("auto").value());
    const int64_t natural = searched.In(kUnlimited).peak_bytes;
    const std::vector<int64_t> budgets = Budgets(searched.minimum(), natural, net.budgets);
    const std::vector<double> times = CheckAuto(searched, budgets);
    for (const Policy& policy : Policies()) {
      if (policy.name == "auto") continue;
      CAPTURE(std::string(policy.name));
      const Searched other(program, policy);
      CHECK(searched.minimum() <= other.minimum());
      for (size_t i = 0; i < budgets.size(); ++i) {
        if (budgets[i] < other.minimum()) continue;
        CAPTURE(budgets[i]);
        CHECK(times[i] <= other.In(budgets[i]).predicted_ms * (1 + 1e-12));
      }
    }
  }
}

void CheckPlan(const PlanResult& result, const PlannerOptions& options) {
  const absl::Status verified = Verify(result.plan);
  REQUIRE_MESSAGE(verified.ok(), verified.ToString());
  CHECK(result.plan.peak_bytes <= options.budget_bytes);
  CHECK(result.plan.host_pool_bytes <= options.host_budget_bytes);
  CHECK(result.plan.peer_pool_bytes <= options.peer_budget_bytes);
}

PlanResult CheckedPlan(const Program& program, const PlannerOptions& options) {
  OneEngine catalog;
  const absl::StatusOr<PlanResult> result = MakePlan(program, options, H200(), catalog);
  REQUIRE_MESSAGE(result.ok(), result.status().ToString());
  CheckPlan(*result, options);
  return *result;
}

// With a budget of the device, at a quarter of the way from the minimum to the natural peak, and
// one of the host or the peer that is a part of what a plan without it has on the host.
template <typename SetBudget>
void CheckPools(const Net& net, const SetBudget& set_budget) {
  CAPTURE(std::string(net.name));
  const Program program = ProgramOf(net);
  OneEngine catalog;
  const PlanResult natural = MakePlan(program, {.policy = "auto"}, H200(), catalog).value();
  const int64_t minimum = natural.stats.minimum_budget_bytes;
  PlannerOptions options = {.budget_bytes = minimum + (natural.plan.peak_bytes - minimum) / 4,
                            .policy = "auto"};
  const int64_t on_host = CheckedPlan(program, options).plan.host_pool_bytes;
  double last = std::numeric_limits<double>::infinity();
  for (const int64_t bytes : Budgets(0, on_host, 3)) {
    CAPTURE(bytes);
    set_budget(bytes, options);
    const absl::StatusOr<PlanResult> result = MakePlan(program, options, H200(), catalog);
    if (!result.ok()) continue;  // too little of the host
    CheckPlan(*result, options);
    CHECK(IterationMs(*result) <= last * (1 + 1e-12));
    last = IterationMs(*result);
  }
  CHECK(last < std::numeric_limits<double>::infinity());
}

TEST_CASE("networks: auto is never slower with more of the host's memory") {
  for (const Net& net : kNets) {
    if (!net.is_small) continue;
    CheckPools(net,
               [](int64_t bytes, PlannerOptions& options) { options.host_budget_bytes = bytes; });
  }
}

TEST_CASE("networks: auto is never slower with more of a peer's memory") {
  for (const Net& net : kNets) {
    if (!net.is_small) continue;
    CheckPools(net,
               [](int64_t bytes, PlannerOptions& options) { options.peer_budget_bytes = bytes; });
  }
}

TEST_CASE("networks: the same request gives the same plan of auto") {
  for (const Net& net : kNets) {
    if (!net.is_small) continue;
    CAPTURE(std::string(net.name));
    const Program program = ProgramOf(net);
    OneEngine catalog;
    const PlanResult natural = MakePlan(program, {.policy = "auto"}, H200(), catalog).value();
    for (const int64_t budget :
         Budgets(natural.stats.minimum_budget_bytes, natural.plan.peak_bytes, 3)) {
      CAPTURE(budget);
      const PlannerOptions options = {.budget_bytes = budget, .policy = "auto"};
      const PlanResult once = CheckedPlan(program, options);
      const Program same = ProgramOf(net);
      OneEngine another;
      CHECK(MakePlan(same, options, H200(), another).value().plan == once.plan);
    }
  }
}

}  // namespace
}  // namespace neap

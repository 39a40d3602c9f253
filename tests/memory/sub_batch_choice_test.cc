#include "neap/memory/sub_batch_choice.h"

#include <doctest/doctest.h>

#include <string>

#include "neap/core/program/passes.h"
#include "neap/core/verifier/verifier.h"
#include "neap/layers/catalog/default_catalog.h"
#include "neap/memory/planner.h"
#include "neap/nets/registry.h"
#include "tests/memory/planning.h"

namespace neap {
namespace {

using testing::H200;
using testing::IterationMs;

// Plans of one network for an H200, with placeholders for engines.
struct Planned {
  explicit Planned(const std::string& net, int64_t batch = 1024)
      : graph(nets::Build(net, {.batch = batch}).value()) {}

  absl::StatusOr<Program> Lowered(int64_t sub_batches) const {
    return Lower(graph, {.sub_batches = sub_batches}, H200());
  }
  int64_t Choose(const PlannerOptions& options) {
    return ChooseSubBatches([&](int64_t count) { return Lowered(count); }, options, H200(), catalog)
        .value();
  }
  absl::StatusOr<PlanResult> Plan(int64_t sub_batches, int64_t budget) {
    return MakePlan(Lowered(sub_batches).value(), {.budget_bytes = budget}, H200(), catalog);
  }
  int64_t Minimum(int64_t sub_batches) {
    return MinimumBudget(Lowered(sub_batches).value(), {}, H200(), catalog).value();
  }

  Graph graph;
  DefaultCatalog catalog;
};

}  // namespace

TEST_CASE("a batch that fits as a whole is not split") {
  Planned net("alexnet");
  const PlanResult whole = net.Plan(1, kUnlimited).value();
  CHECK(net.Choose({.budget_bytes = whole.plan.peak_bytes}) == 1);
  CHECK(net.Choose({}) == 1);
}

TEST_CASE("with memory to spare, more parts take longer: gradients are added up") {
  Planned net("alexnet");
  double before_ms = 0;
  for (const int64_t count : {1, 2, 4}) {
    const double ms = net.Plan(count, kUnlimited)->plan.predicted_ms;
    CHECK(ms > before_ms);
    before_ms = ms;
  }
}

TEST_CASE("below the smallest budget of the whole batch, parts fit, and their plan is valid") {
  Planned net("alexnet");
  const int64_t budget = net.Minimum(1) - kBlockBytes;
  REQUIRE(absl::IsResourceExhausted(net.Plan(1, budget).status()));
  const int64_t count = net.Choose({.budget_bytes = budget});
  CHECK(count > 1);
  const PlanResult split = net.Plan(count, budget).value();
  CHECK(split.plan.sub_batches == count);
  CHECK(split.plan.peak_bytes <= budget);
  CHECK(Verify(split.plan).ok());
  CHECK(MatchesProgram(split.plan, net.Lowered(count).value()).ok());
}

TEST_CASE("the chosen number is never slower than the whole batch") {
  Planned net("alexnet");
  const int64_t least = net.Minimum(1);
  const int64_t most = net.Plan(1, kUnlimited)->plan.peak_bytes;
  for (int64_t part = 0; part <= 4; ++part) {
    const int64_t budget = least + (most - least) * part / 4;
    CAPTURE(budget);
    const int64_t count = net.Choose({.budget_bytes = budget});
    CHECK(IterationMs(net.Plan(count, budget).value()) <= IterationMs(net.Plan(1, budget).value()));
  }
}

TEST_CASE("the number is 1 where bits must not depend on the budget, or images are coupled") {
  Planned net("alexnet");
  const int64_t budget = net.Minimum(1) - kBlockBytes;
  CHECK(net.Choose({.budget_bytes = budget, .strict = true}) == 1);
  CHECK(net.Choose({.budget_bytes = budget, .policy = "superneurons"}) == 1);
  CHECK(net.Choose({.budget_bytes = budget, .sub_batches = 8}) == 8);
  DeviceDescription cpu = H200();
  cpu.kind = "cpu";
  const auto lower = [&](int64_t count) { return net.Lowered(count); };
  CHECK(ChooseSubBatches(lower, {.budget_bytes = budget}, cpu, net.catalog).value() == 1);

  Planned normalised("resnet50", 8);
  CHECK(normalised.Choose({.budget_bytes = normalised.Minimum(1) - kBlockBytes}) == 1);
}

TEST_CASE("where no number of parts fits, it is that with the smallest plan") {
  Planned net("alexnet", 4);
  const int64_t count = net.Choose({.budget_bytes = kMiB});
  for (const int64_t other : {1, 2, 4}) CHECK(net.Minimum(count) <= net.Minimum(other));
}

TEST_CASE("a planner chooses for a session") {
  Planned net("alexnet");
  const auto planner = PlannerFor({.policy = "auto"});
  const auto lower = [&](int64_t count) { return net.Lowered(count); };
  const PlanRequest request = {.budget_bytes = net.Minimum(1) - kBlockBytes};
  CHECK(planner->SubBatches(lower, request, H200(), net.catalog).value() > 1);
  CHECK(planner->SubBatches(lower, {.strict = true}, H200(), net.catalog).value() == 1);
}

}  // namespace neap

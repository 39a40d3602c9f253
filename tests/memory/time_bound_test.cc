#include "neap/memory/time_bound.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>

#include "neap/core/program/passes.h"
#include "neap/layers/activation.h"
#include "neap/layers/catalog/default_catalog.h"
#include "neap/layers/convolution.h"
#include "neap/layers/pooling.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/memory/planner.h"
#include "neap/memory/policies/policies.h"
#include "neap/nets/registry.h"
#include "tests/memory/engines/workspace_catalog.h"
#include "tests/memory/planning.h"
#include "tests/random_graph.h"

namespace neap {
namespace {

using testing::H200;

// At the beginning of backward the input, tanh and sigmoid are needed later, a MiB each.
Program Activations() {
  Graph net({.name = "activations", .batch = 1});
  const Convolution convolution = {.out_channels = 4, .kernel = 1, .bias = false};
  std::string x = net.Add("conv", convolution, {net.Input({4, 256, 256})});
  x = net.Add("sigmoid", Sigmoid{}, {net.Add("tanh", Tanh{}, {x})});
  net.Loss(net.Add("pool", GlobalAveragePool{}, {x}), SoftmaxCrossEntropy{});
  return BuildProgram(net, {}).value();
}

TEST_CASE("what exceeds the capacity is moved or rebuilt, whichever takes less time") {
  const Program program = Activations();
  // Beside them lies their gradient.
  const int64_t capacity = 7 * kMiB / 2;
  TimePrices prices;
  for (const Step& step : program.steps) {
    prices.run_seconds.push_back(1);
    prices.rerun_seconds.push_back(step.phase == Phase::kForward ? 0.5 : 0);
  }
  const auto all = static_cast<double>(program.steps.size());
  CHECK(LeastSeconds(program, prices, 5 * kMiB) == all);
  CHECK(LeastSeconds(program, prices, capacity) == all);  // copies take no time
  prices.link_bytes_per_second = 1;
  CHECK(LeastSeconds(program, prices, capacity) == doctest::Approx(all + 0.25));
  prices.link_bytes_per_second = kMiB;
  CHECK(LeastSeconds(program, prices, capacity) == all);  // half a second, while others run
  // Two results can be rebuilt, the input cannot.
  prices.link_bytes_per_second = 1e-3;
  CHECK(LeastSeconds(program, prices, 2 * kMiB) > 1e6);
}

TEST_CASE("ResNet-50: the time is within some percent of the bound where rebuilding suffices") {
  const Program program = Lower(nets::Build("resnet50", {.batch = 64}).value(), {}, H200()).value();
  DefaultCatalog catalog;
  const int64_t natural =
      MakePlan(program, {.policy = "auto"}, H200(), catalog).value().plan.peak_bytes;
  double last = 0;
  for (const auto& [part, gap] : {std::pair(0.8, 1.02), {0.6, 1.03}, {0.5, 1.04}, {0.35, 1.08}}) {
    CAPTURE(part);
    const PlanResult result =
        MakePlan(program,
                 {.budget_bytes = static_cast<int64_t>(static_cast<double>(natural) * part),
                  .policy = "auto"},
                 H200(), catalog)
            .value();
    CHECK(result.stats.least_ms >= last);
    CHECK(result.plan.predicted_ms >= result.stats.least_ms);
    CHECK(result.plan.predicted_ms <= result.stats.least_ms * gap);
    last = result.stats.least_ms;
  }
}

TEST_CASE("random networks: no policy's plan in any budget takes less time than the bound") {
  testing::WorkspaceCatalog catalog;
  int bounds = 0, above_natural = 0;
  for (uint32_t seed = 0; seed < testing::RandomSeeds(60); ++seed) {
    CAPTURE(seed);
    const Graph graph = testing::RandomGraph(seed, {.residual = seed % 3 == 0});
    const Program program = Lower(graph, {}, H200()).value();
    const PlannerOptions unlimited = {.policy = "auto"};
    const PlanResult natural = MakePlan(program, unlimited, H200(), catalog).value();
    for (int part = 0; part <= 4; ++part) {
      const int64_t minimum = natural.stats.minimum_budget_bytes;
      const int64_t budget = minimum + (natural.plan.peak_bytes - minimum) * part / 4;
      CAPTURE(budget);
      PlannerOptions options = {.budget_bytes = budget, .policy = "auto"};
      const double least_ms = MakePlan(program, options, H200(), catalog).value().stats.least_ms;
      ++bounds;
      above_natural += least_ms > natural.plan.predicted_ms * 1.001;
      for (const Policy& policy : Policies()) {
        CAPTURE(policy.name);
        options.policy = policy.name;
        const absl::StatusOr<PlanResult> result = MakePlan(program, options, H200(), catalog);
        if (!result.ok()) continue;
        CHECK(least_ms <= result->plan.predicted_ms * (1 + 1e-9));
      }
    }
  }
  MESSAGE(above_natural, " of ", bounds, " bounds were above the time without a budget");
  CHECK(above_natural > 0);
}

}  // namespace
}  // namespace neap

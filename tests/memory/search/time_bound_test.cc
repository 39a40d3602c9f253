#include "neap/memory/search/time_bound.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/program/passes.h"
#include "neap/layers/activation.h"
#include "neap/layers/catalog/default_catalog.h"
#include "neap/layers/convolution.h"
#include "neap/layers/join.h"
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
  // Two results can be rebuilt, the input cannot: half a MiB is moved there and back.
  prices.link_bytes_per_second = 1e-3;
  const double slowly = 2 * 0.5 * static_cast<double>(kMiB) * 1e3;
  CHECK(LeastSeconds(program, prices, 5 * kMiB / 2) == doctest::Approx(slowly).epsilon(1e-3));
}

// A sum of `count` activations, with `pairs` ways to overwrite one of them.
Program Sum(int count, int pairs) {
  Graph net({.name = "sum", .batch = 1});
  const std::string x = net.Add("conv", Convolution{.out_channels = 4, .kernel = 1, .bias = false},
                                {net.Input({4, 256, 256})});
  std::vector<std::string> parts;
  for (int i = 0; i < count; ++i) parts.push_back(net.Add(absl::StrCat("tanh", i), Tanh{}, {x}));
  net.Loss(net.Add("pool", GlobalAveragePool{}, {net.Add("sum", Add{}, parts)}),
           SoftmaxCrossEntropy{});
  Program program = BuildProgram(net, {}).value();
  for (Step& step : program.steps) {
    if (program.StepName(step) != "sum forward") continue;
    step.in_place.clear();
    for (int i = 0; i < pairs; ++i)
      step.in_place.emplace_back(step.writes[0].tensor, step.reads[static_cast<size_t>(i)].tensor);
  }
  return program;
}

TEST_CASE("more ways to work in place never raise the bound") {
  TimePrices prices = {.link_bytes_per_second = 1e-3};
  const size_t steps = Sum(3, 0).steps.size();
  prices.run_seconds.resize(steps, 1);
  prices.rerun_seconds.resize(steps, 1e9);
  for (int64_t capacity = 2 * kMiB; capacity < 8 * kMiB; capacity += kMiB / 2) {
    CAPTURE(capacity);
    double last = std::numeric_limits<double>::infinity();
    for (int pairs = 0; pairs <= 3; ++pairs) {
      const double seconds = LeastSeconds(Sum(3, pairs), prices, capacity);
      CHECK(seconds <= last);
      last = seconds;
    }
  }
}

TEST_CASE("ResNet-50: the time is within some percent of the bound where rebuilding suffices") {
  const Program program = Lower(nets::Build("resnet50", {.batch = 64}).value(), {}, H200()).value();
  DefaultCatalog catalog;
  const int64_t natural =
      MakePlan(program, {.policy = "auto"}, H200(), catalog).value().plan.peak_bytes;
  double last = 0;
  struct Case {
    double part, gap;
  };
  for (const Case& c : {Case{0.8, 1.02}, {0.6, 1.03}, {0.5, 1.04}, {0.35, 1.08}}) {
    CAPTURE(c.part);
    const PlanResult result =
        MakePlan(program,
                 {.budget_bytes = static_cast<int64_t>(static_cast<double>(natural) * c.part),
                  .policy = "auto"},
                 H200(), catalog)
            .value();
    CHECK(result.stats.time_bound_ms >= last);
    CHECK(result.plan.predicted_ms >= result.stats.time_bound_ms);
    CHECK(result.plan.predicted_ms <= result.stats.time_bound_ms * c.gap);
    last = result.stats.time_bound_ms;
  }
}

TEST_CASE("random networks: no policy's plan in any budget takes less time than the bound") {
  testing::WorkspaceCatalog catalog;
  DeviceDescription device = H200();
  device.copy_bandwidth /= 20;  // small kernels are mostly launches: copies take longer than those
  // No times, those of all engines, and those of the fast ones, which are not always fast.
  const std::shared_ptr<const KernelTimings> timings[] = {
      nullptr, std::make_shared<testing::WorkspaceTimings>(0.1),
      std::make_shared<testing::WorkspaceTimings>(0.01, /*fast_only=*/true)};
  int bounds = 0, above_natural = 0, compared = 0;
  for (uint32_t seed = 0; seed < testing::RandomSeeds(6); ++seed) {
    CAPTURE(seed);
    const Graph graph = testing::RandomGraph(
        seed, {.batch = seed % 2 == 0 ? 64 : 2, .residual = seed % 3 == 0, .ports = seed % 2 == 1});
    const Program program = Lower(graph, {.offload_params = seed % 5 == 4}, device).value();
    const PlannerOptions unlimited = {.policy = "auto", .kernels = {.timings = timings[seed % 3]}};
    const PlanResult natural = MakePlan(program, unlimited, device, catalog).value();
    for (int part = 0; part <= 2; ++part) {
      const int64_t minimum = natural.stats.minimum_budget_bytes;
      const int64_t budget = minimum + (natural.plan.peak_bytes - minimum) * part / 2;
      CAPTURE(budget);
      PlannerOptions options = unlimited;
      options.budget_bytes = budget;
      const double least_ms =
          MakePlan(program, options, device, catalog).value().stats.time_bound_ms;
      ++bounds;
      above_natural += least_ms > natural.plan.predicted_ms * 1.001;
      for (const Policy& policy : Policies()) {
        CAPTURE(policy.name);
        options.policy = policy.name;
        const absl::StatusOr<PlanResult> result = MakePlan(program, options, device, catalog);
        if (!result.ok()) continue;
        ++compared;
        CHECK(least_ms <= result->plan.predicted_ms * (1 + 1e-9));
      }
    }
  }
  MESSAGE(above_natural, " of ", bounds, " bounds were above the time without a budget");
  CHECK(above_natural > 0);
  CHECK(compared > 5 * bounds);
}

}  // namespace
}  // namespace neap

#include "neap/memory/budget_bound.h"

#include <doctest/doctest.h>

#include "neap/core/program/passes.h"
#include "neap/layers/catalog/default_catalog.h"
#include "neap/layers/devices/device_description.h"
#include "neap/memory/planner.h"
#include "neap/nets/registry.h"
#include "tests/random_graph.h"

namespace neap {
namespace {

const DeviceDescription kH200 = DescribedDevice("h200").value();

}  // namespace

TEST_CASE("random networks: the bound is at most the smallest feasible budget") {
  DefaultCatalog catalog;
  for (uint32_t seed = 0; seed < testing::RandomSeeds(30); ++seed) {
    CAPTURE(seed);
    const Graph graph = testing::RandomGraph(
        seed, {.batch = 7, .dtype = seed % 3 == 1 ? DType::kFp16 : DType::kFp32});
    for (const int64_t count : {1, 2, 3, 7}) {
      for (const bool offload_params : {false, true}) {
        for (const bool in_place : {true, false}) {
          CAPTURE(count);
          CAPTURE(offload_params);
          CAPTURE(in_place);
          const absl::StatusOr<Program> program = Lower(
              graph,
              {.offload_params = offload_params, .sub_batches = count, .batch_norm_in_parts = true},
              kH200);
          if (!program.ok()) continue;  // a part has one value per channel
          const PlannerOptions options = {.policy = "auto", .in_place = in_place};
          const int64_t least = MinimumBudget(*program, options, kH200, catalog).value();
          CHECK(BudgetBound(*program, options) <= least);
          CHECK(UnmovedBytes(*program, options) >= BudgetBound(*program, options));
        }
      }
    }
  }
}

TEST_CASE("networks: the bound is close to the smallest budget, and what needs no moves fits") {
  DefaultCatalog catalog;
  for (const char* net : {"alexnet", "vgg16", "lenet"}) {
    const Graph graph = nets::Build(net, {.batch = 24}).value();
    for (const int64_t count : {1, 3, 24}) {
      CAPTURE(net);
      CAPTURE(count);
      const Program program = Lower(graph, {.sub_batches = count}, kH200).value();
      const auto bound = static_cast<double>(BudgetBound(program, {}));
      const auto least = static_cast<double>(MinimumBudget(program, {}, kH200, catalog).value());
      CHECK(bound <= least);
      CHECK(bound >= 0.97 * least);
      const int64_t unmoved =
          MinimumBudget(program, {.policy = "liveness"}, kH200, catalog).value();
      CHECK(UnmovedBytes(program, {}) <= unmoved);
      CHECK(static_cast<double>(UnmovedBytes(program, {})) >= 0.97 * static_cast<double>(unmoved));
    }
  }
}

}  // namespace neap

#include "apps/bench/pool_comparison.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>

#include "neap/core/plan/plan_memory.h"
#include "neap/core/program/passes.h"
#include "neap/layers/cpu/cpu_device.h"
#include "neap/memory/planner.h"
#include "neap/nets/registry.h"
#include "tests/apps/command.h"
#include "tests/random_graph.h"

namespace neap::testing {
namespace {

using apps::ComparePool;
using apps::PoolComparison;

// Whether the parameters after training are the same bits on both sides.
void CheckSameBits(const Graph& graph, const PlannerOptions& options) {
  const std::unique_ptr<CpuDevice> device = CpuDevice::Open().value();
  const absl::StatusOr<PoolComparison> comparison = ComparePool(graph, *device, options, 2);
  REQUIRE_MESSAGE(comparison.ok(), comparison.status().ToString());
  REQUIRE(!comparison->pool_parameters.empty());
  CHECK(comparison->separate_parameters == comparison->pool_parameters);
  CHECK(comparison->allocations > 0);
  CHECK(comparison->separate_seconds > 0);
  CHECK(comparison->pool_seconds > 0);
  CHECK(comparison->replayed_seconds > 0);
}

TEST_CASE("a network trains to the same bits in an arena and with an allocation for each tensor") {
  CheckSameBits(nets::Build("lenet", {.batch = 4}).value(), {.policy = "liveness", .strict = true});
}

TEST_CASE("random networks: the same under policies that move and rebuild tensors") {
  for (uint32_t seed = 0; seed < RandomSeeds(6); ++seed) {
    CAPTURE(seed);
    const Graph graph = RandomGraph(seed);
    for (const char* policy : {"keep-all", "offload", "cost-aware", "chen"}) {
      CAPTURE(policy);
      CheckSameBits(graph, {.policy = policy, .strict = true});
    }
  }
}

TEST_CASE("random networks: the same in the smallest budget of the tensor cache") {
  const std::unique_ptr<CpuDevice> device = CpuDevice::Open().value();
  for (uint32_t seed = 0; seed < RandomSeeds(4); ++seed) {
    CAPTURE(seed);
    const Graph graph = RandomGraph(seed);
    PlannerOptions options = {.policy = "tensor-cache", .strict = true};
    const Program program = Lower(graph, {}, device->description()).value();
    options.budget_bytes =
        MinimumBudget(program, options, device->description(), device->backend()).value();
    CheckSameBits(graph, options);
  }
}

TEST_CASE("neap bench pool prints both sides") {
  const nlohmann::json report =
      RunForJson({"bench", "pool", "lenet", "--batch", "4", "--device", "cpu", "--steps", "2"})
          .at(0);
  CHECK(report.at("bench") == "pool");
  CHECK(report.at("steps") == 2);
  CHECK(
      report.at("speedup").get<double>() ==
      doctest::Approx(report.at("separate_ms").get<double>() / report.at("pool_ms").get<double>()));
  const std::string text =
      RunNeap({"bench", "pool", "lenet", "--batch", "4", "--device", "cpu", "--steps", "2"}).out;
  CHECK(text.find("allocated and freed by the device") != std::string::npos);
}

}  // namespace
}  // namespace neap::testing

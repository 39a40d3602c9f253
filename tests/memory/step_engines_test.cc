#include "neap/memory/step_engines.h"

#include <doctest/doctest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "neap/core/device/description.h"
#include "neap/layers/convolution.h"
#include "neap/memory/planner.h"
#include "neap/recompute/recompute.h"
#include "tests/memory/workspace_catalog.h"
#include "tests/random_graph.h"

namespace neap {
namespace {

Program OneConvolution() {
  Graph net({.name = "one", .batch = 2});
  net.Loss(net.Add("conv", Convolution{.out_channels = 3, .kernel = 4}, {net.Input({1, 4, 4})}));
  return BuildProgram(net, {}).value();
}
const Run kConvolution = {.step = StepId(0)};
const Run kAgain = {.step = StepId(0), .recompute = true};

// Nothing but engines that give other bits every time.
class UnstableCatalog final : public EngineCatalog {
 public:
  absl::StatusOr<std::vector<Engine>> Engines(const StepSignature& /*signature*/) override {
    return std::vector<Engine>{{.id = "unstable", .deterministic = false}};
  }
  std::string Versions() const override { return ""; }
};

TEST_CASE("the first engine in order of preference that fits is taken, else the smallest") {
  const Program program = OneConvolution();
  testing::WorkspaceCatalog catalog;
  const EngineTable table = EngineTable::List(program, false, catalog).value();
  const std::vector<Engine>& engines = table.Of(kConvolution).engines;
  REQUIRE(engines.size() == 3);  // the unstable one is not among them
  const int64_t fast = engines[0].workspace_bytes;
  const int64_t medium = engines[1].workspace_bytes;
  CHECK(table.FirstThatFits(kConvolution, fast)->id == "fast");
  CHECK(table.FirstThatFits(kConvolution, fast - 1)->id == "medium");
  CHECK(table.FirstThatFits(kConvolution, medium - 1)->id == "small");
  CHECK(table.FirstThatFits(kConvolution, 0)->id == "small");
  CHECK(table.Smallest(kConvolution)->id == "small");
  CHECK(table.SmallestWorkspace(kConvolution) == 600);
  CHECK(!table.Of(kConvolution).only_one);
}

TEST_CASE("a step that runs again has one engine both times, strict mode's, whatever is free") {
  const Program program = OneConvolution();
  testing::WorkspaceCatalog catalog;
  EngineTable table = EngineTable::List(program, false, catalog).value();
  REQUIRE(table.AddReruns(program, {kConvolution, kAgain, kAgain}, catalog).ok());
  for (const int64_t free_bytes : {int64_t{0}, kGiB}) {
    CHECK(table.FirstThatFits(kConvolution, free_bytes)->id == "fast");
    CHECK(table.FirstThatFits(kAgain, free_bytes)->id == "fast");
  }
}

TEST_CASE("strict mode has one engine: the first within its workspace, else the smallest") {
  const Program program = OneConvolution();
  testing::WorkspaceCatalog catalog;
  const EngineTable table = EngineTable::List(program, true, catalog).value();
  for (const int64_t free_bytes : {int64_t{0}, kGiB})
    CHECK(table.FirstThatFits(kConvolution, free_bytes)->id == "fast");
  CHECK(table.Smallest(kConvolution)->id == "fast");
}

TEST_CASE("a step without a deterministic engine is refused by name") {
  UnstableCatalog catalog;
  const absl::Status refused = EngineTable::List(OneConvolution(), false, catalog).status();
  CHECK(refused.code() == absl::StatusCode::kFailedPrecondition);
  CHECK(std::string(refused.message()).find("conv forward") != std::string::npos);
}

TEST_CASE("random plans that run convolutions again run each with one engine") {
  testing::WorkspaceCatalog catalog;
  const DeviceDescription device = DescribedDevice("h200").value();
  int reruns = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    const Program program = BuildProgram(testing::RandomGraph(seed, {.image = 16}), {}).value();
    const Plan plan = MakePlan(program, {.policy = "chen"}, device, catalog)->plan;
    std::map<int, std::set<std::string>> engines;
    for (const StepMemory& memory : MemoryPerStep(plan)) {
      engines[memory.step.value].insert(memory.engine);
      if (memory.recompute && !memory.engine.empty()) ++reruns;
    }
    for (const auto& [step, names] : engines) CHECK(names.size() == 1);
  }
  CHECK(reruns > 0);
}

}  // namespace
}  // namespace neap

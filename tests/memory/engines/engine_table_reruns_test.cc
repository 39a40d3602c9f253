// The engines and times of steps that run again: one engine both times, and what that costs.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "neap/core/plan/plan_memory.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/convolution.h"
#include "neap/layers/devices/device_description.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/pooling.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/memory/engines/engine_table.h"
#include "neap/memory/planner.h"
#include "neap/recompute/recompute.h"
#include "tests/layers/made_up_timings.h"
#include "tests/memory/engines/engine_tables.h"
#include "tests/memory/engines/workspace_catalog.h"
#include "tests/random_graph.h"

namespace neap {
namespace {

using testing::EngineOf;
using testing::kAgain;
using testing::kConvolution;
using testing::kMeasured;
using testing::MadeUpTimings;
using testing::OneConvolution;
using testing::TableOf;
using testing::UnstableCatalog;

TEST_CASE("a step that runs again has one engine both times, strict mode's, whatever is free") {
  const Program program = OneConvolution();
  testing::WorkspaceCatalog catalog;
  EngineTable table = TableOf(program, catalog).value();
  REQUIRE(table.AddReruns(program, {kConvolution, kAgain, kAgain}, catalog).ok());
  const EngineTable again = table.For({kConvolution, kAgain});
  for (const int64_t free_bytes : {int64_t{0}, kGiB}) {
    CHECK(EngineOf(again.FirstThatFits(kConvolution, free_bytes)) == "fast");
    CHECK(EngineOf(again.FirstThatFits(kAgain, free_bytes)) == "fast");
  }
  // An order of runs that does not rerun it keeps all engines.
  CHECK(EngineOf(table.For({kConvolution}).FirstThatFits(kConvolution, 0)) == "small");
  CHECK(EngineOf(table.FirstThatFits(kConvolution, 0)) == "small");
}

TEST_CASE("the time of a rerun is that of its one engine, infinite if it has none") {
  const Program program = OneConvolution(4);
  testing::WorkspaceCatalog catalog;
  const auto timings = std::make_shared<MadeUpTimings>(kMeasured);
  EngineTable table = TableOf(program, catalog, {.timings = timings}).value();
  const std::vector<double> seconds = table.PriceReruns(program, catalog).value().rerun_seconds;
  REQUIRE(seconds.size() == program.steps.size());
  CHECK(seconds[0] == doctest::Approx(1e-3));
  CHECK(seconds.back() == 0);  // an update
  UnstableCatalog unstable;
  EngineTable nondeterministic =
      TableOf(program, catalog, {.timings = timings, .deterministic = false}).value();
  CHECK(std::isinf(nondeterministic.PriceReruns(program, unstable).value().rerun_seconds[0]));
}

// A convolution of 8 MiB of output, and a larger one behind it if that has channels.
Program LargeConvolutions(int64_t channels_behind) {
  Graph net({.name = "large", .batch = 1});
  std::string x =
      net.Add("conv", Convolution{.out_channels = 2, .kernel = 1}, {net.Input({1, 1024, 1024})});
  if (channels_behind > 0)
    x = net.Add("behind", Convolution{.out_channels = channels_behind, .kernel = 1}, {x});
  net.Loss(net.Add("pool", GlobalAveragePool{}, {x}), SoftmaxCrossEntropy{});
  return BuildProgram(net, {}).value();
}

TEST_CASE("a rerun may have the workspace that makes its step no larger than the largest one") {
  testing::WorkspaceCatalog catalog;
  for (const auto& [channels_behind, engine] : {std::pair(0, "medium"), std::pair(128, "fast")}) {
    const Program program = LargeConvolutions(channels_behind);
    EngineTable table = TableOf(program, catalog).value();
    CHECK(table.Of(kConvolution).configurations[0].workspace_bytes == 320 * kMiB);
    REQUIRE(table.AddReruns(program, {kConvolution, kAgain}, catalog).ok());
    CHECK(EngineOf(table.For({kConvolution, kAgain}).FirstThatFits(kAgain, 0)) == engine);
    // In strict mode fusion, which changes the program, must not change the engine.
    EngineTable strict = TableOf(program, catalog, {}, /*strict=*/true).value();
    CHECK(EngineOf(strict.FirstThatFits(kConvolution, kGiB)) == "medium");
    REQUIRE(strict.AddReruns(program, {kConvolution, kAgain}, catalog).ok());
    CHECK(EngineOf(strict.For({kConvolution, kAgain}).FirstThatFits(kAgain, 0)) == "medium");
  }
}

TEST_CASE("a rerun costs its own time, and what the first run loses because both have one engine") {
  const Program program = OneConvolution();
  testing::WorkspaceCatalog catalog;
  const auto timings = std::make_shared<MadeUpTimings>(std::vector<TimedEngine>{
      {"small", 2, 600, 9e-3}, {"medium", 2, 4000, 12e-3}, {"fast", 2, 100 * kMiB, 1e-3}});
  EngineTable table = TableOf(program, catalog, {.timings = timings}).value();
  const RebuildPrices prices = table.PriceReruns(program, catalog).value();
  CHECK(prices.rerun_seconds[0] == doctest::Approx(9e-3));
  CHECK(prices.first_run_seconds[0] == doctest::Approx(9e-3 - 1e-3));
  CHECK(table.LeastRunSeconds()[0] == doctest::Approx(1e-3));
}

TEST_CASE("a measured step that runs again has one deterministic configuration both times") {
  const Program program = OneConvolution();
  testing::WorkspaceCatalog catalog;
  const auto timings = std::make_shared<MadeUpTimings>(kMeasured);
  EngineTable table = TableOf(program, catalog, {.timings = timings}).value();
  REQUIRE(table.AddReruns(program, {kConvolution, kAgain}, catalog).ok());
  const EngineTable again = table.For({kConvolution, kAgain});
  for (const int64_t free_bytes : {int64_t{0}, kGiB}) {
    CHECK(EngineOf(again.FirstThatFits(kConvolution, free_bytes)) == "fast");
    CHECK(again.FirstThatFits(kAgain, free_bytes) == again.FirstThatFits(kConvolution, 0));
  }
}

// Everything has an engine, but reruns none that gives the same bits.
class UnstableReruns final : public EngineCatalog {
 public:
  absl::StatusOr<std::vector<Engine>> Engines(const StepSignature& signature) override {
    return std::vector<Engine>{{.id = "only", .deterministic = !signature.rerun}};
  }
  std::string Versions() const override { return ""; }
};

TEST_CASE("a rerun that is refused once is refused again, and takes infinitely long") {
  Graph net({.name = "norm", .batch = 2});
  const std::string x = net.Add("bn", BatchNorm{}, {net.Input({2, 4, 4})});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 3}, {x}), SoftmaxCrossEntropy{});
  const Program program = BuildProgram(net, {}).value();
  REQUIRE(!program.steps[0].rerun_reads.empty());
  UnstableReruns catalog;
  EngineTable table = TableOf(program, catalog).value();
  const ComputeSequence runs = {{program.steps[0].id}, {program.steps[0].id, true}};
  for (int i = 0; i < 2; ++i)
    CHECK(absl::IsFailedPrecondition(table.AddReruns(program, runs, catalog)));
  CHECK(std::isinf(table.PriceReruns(program, catalog).value().rerun_seconds[0]));
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

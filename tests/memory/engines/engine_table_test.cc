#include "neap/memory/engines/engine_table.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "neap/core/plan/plan_memory.h"
#include "neap/core/verifier/verifier.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/catalog/default_catalog.h"
#include "neap/layers/catalog/measured_catalog.h"
#include "neap/layers/convolution.h"
#include "neap/layers/devices/device_description.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/join.h"
#include "neap/layers/pooling.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/memory/planner.h"
#include "neap/recompute/recompute.h"
#include "tests/layers/made_up_timings.h"
#include "tests/memory/engines/workspace_catalog.h"
#include "tests/random_graph.h"

namespace neap {
namespace {

using testing::MadeUpTimings;

Program OneConvolution(int64_t out_channels = 3) {
  Graph net({.name = "one", .batch = 2});
  net.Loss(net.Add("conv", Convolution{.out_channels = out_channels, .kernel = 4},
                   {net.Input({1, 4, 4})}),
           SoftmaxCrossEntropy{});
  return BuildProgram(net, {}).value();
}
const std::vector<TimedEngine> kMeasured = {{"small", 2, 600, 9e-3},
                                            {"medium", 2, 4000, 5e-3},
                                            {"fast", 2, 9000, 1e-3},
                                            {"fast", 1, 4500, 6e-4},
                                            {"unstable", 2, 100, 4e-3, /*deterministic=*/false}};

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

absl::StatusOr<EngineTable> TableOf(const Program& program, EngineCatalog& catalog,
                                    const KernelOptions& options = {}, bool strict = false) {
  return EngineTable::List(program, options, strict, DescribedDevice("h200").value(), catalog);
}

std::string EngineOf(const Configuration& configuration) {
  return configuration.parts.front().engine;
}

TEST_CASE("the first engine in order of preference that fits is taken, else the smallest") {
  const Program program = OneConvolution();
  testing::WorkspaceCatalog catalog;
  const EngineTable table = TableOf(program, catalog).value();
  const std::vector<Configuration>& engines = table.Of(kConvolution).configurations;
  REQUIRE(engines.size() == 3);  // the unstable one is not among them
  const int64_t fast = engines[0].workspace_bytes;
  const int64_t medium = engines[1].workspace_bytes;
  CHECK(EngineOf(table.FirstThatFits(kConvolution, fast)) == "fast");
  CHECK(EngineOf(table.FirstThatFits(kConvolution, fast - 1)) == "medium");
  CHECK(EngineOf(table.FirstThatFits(kConvolution, medium - 1)) == "small");
  CHECK(EngineOf(table.FirstThatFits(kConvolution, 0)) == "small");
  CHECK(EngineOf(table.Smallest(kConvolution)) == "small");
  CHECK(table.Smallest(kConvolution).workspace_bytes == 600);
  CHECK(!table.Of(kConvolution).only_one);
  CHECK(table.Of(kConvolution).configurations.front().source == TimeSource::kModel);
}

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

TEST_CASE("strict mode has one engine: the first within its workspace, else the smallest") {
  const Program program = OneConvolution();
  testing::WorkspaceCatalog catalog;
  const EngineTable table = TableOf(program, catalog, {}, /*strict=*/true).value();
  for (const int64_t free_bytes : {int64_t{0}, kGiB})
    CHECK(EngineOf(table.FirstThatFits(kConvolution, free_bytes)) == "fast");
  CHECK(EngineOf(table.Smallest(kConvolution)) == "fast");
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

TEST_CASE("engines that were not measured are taken to be slower, the later they are listed") {
  testing::WorkspaceCatalog catalog;
  const EngineTable table = TableOf(OneConvolution(), catalog).value();
  const std::vector<Configuration>& engines = table.Of(kConvolution).configurations;
  REQUIRE(engines.size() == 3);
  CHECK(engines[1].seconds == doctest::Approx(1.1 * engines[0].seconds));
  CHECK(engines[2].seconds == doctest::Approx(1.2 * engines[0].seconds));
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

TEST_CASE(
    "the smallest engine, which was not measured, stays the slowest where gradients are added") {
  Graph net({.name = "fork", .batch = 8});
  const Convolution convolution = {.out_channels = 4, .kernel = 3, .padding = 1, .bias = false};
  const std::string x = net.Add("conv1", convolution, {net.Input({4, 32, 32})});
  const std::string sum = net.Add(
      "sum", Add{}, {net.Add("conv2", convolution, {x}), net.Add("conv3", convolution, {x})});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 3}, {sum}), SoftmaxCrossEntropy{});
  const Program program = BuildProgram(net, {}).value();
  testing::WorkspaceCatalog catalog;
  const auto timings =
      std::make_shared<testing::WorkspaceTimings>(/*ms_per_megabyte=*/1e-3, /*fast_only=*/true);
  const EngineTable table = TableOf(program, catalog, {.timings = timings}).value();
  int adding = 0;
  for (const Step& step : program.steps) {
    const std::vector<Configuration>& engines = table.Of({step.id}).configurations;
    if (step.accumulates.empty() || engines.size() == 1) continue;
    ++adding;
    CHECK(EngineOf(engines.back()) == "small");
    CHECK(engines.back().seconds >= engines.front().seconds);
    CHECK(table.LeastRunSeconds()[step.id.index()] == engines.front().seconds);
  }
  CHECK(adding > 0);
}

TEST_CASE("a step without a deterministic engine is refused by name") {
  UnstableCatalog catalog;
  const absl::Status refused = TableOf(OneConvolution(), catalog).status();
  CHECK(refused.code() == absl::StatusCode::kFailedPrecondition);
  CHECK(std::string(refused.message()).find("conv forward") != std::string::npos);
}

TEST_CASE("measured times decide: at every workspace the fastest, in parts where that is faster") {
  const Program program = OneConvolution(4);  // 16 bytes an image: parts may begin anywhere
  testing::WorkspaceCatalog catalog;
  const auto timings = std::make_shared<MadeUpTimings>(kMeasured);
  const EngineTable table = TableOf(program, catalog, {.timings = timings}).value();
  CHECK(table.Of(kConvolution).configurations.front().source == TimeSource::kMeasured);
  CHECK(table.FirstThatFits(kConvolution, 9000).parts == std::vector<EngineUse>{{"fast", 2}});
  CHECK(table.FirstThatFits(kConvolution, 8999).parts ==
        std::vector<EngineUse>{{"fast", 1}, {"fast", 1}});
  CHECK(table.FirstThatFits(kConvolution, 8999).seconds == doctest::Approx(1.2e-3));
  CHECK(EngineOf(table.FirstThatFits(kConvolution, 4499)) == "medium");
  const EngineTable any =
      TableOf(program, catalog, {.timings = timings, .deterministic = false}).value();
  CHECK(EngineOf(any.FirstThatFits(kConvolution, 4499)) == "unstable");
}

TEST_CASE("the smallest engine stays where it was not measured, and does not count as measured") {
  const Program program = OneConvolution(4);
  testing::WorkspaceCatalog catalog;
  const std::vector<TimedEngine> partly = {{"fast", 2, 9000, 1e-3}};
  const auto smallest = [&](std::vector<std::string> failed) {
    const auto timings = std::make_shared<MadeUpTimings>(partly);
    for (std::string& engine : failed) timings->failed.push_back({std::move(engine), 2});
    return TableOf(program, catalog, {.timings = timings}).value().Smallest(kConvolution);
  };
  CHECK(EngineOf(smallest({})) == "small");
  CHECK_FALSE(smallest({}).source == TimeSource::kMeasured);
  CHECK(smallest({}).seconds >= 1e-3);
  CHECK(EngineOf(smallest({"small"})) == "medium");  // it failed when it was to be measured
  CHECK(EngineOf(smallest({"small", "medium"})) == "fast");
  const auto timings = std::make_shared<MadeUpTimings>(partly);
  const KernelOptions options = {.timings = timings};
  const DeviceDescription h200 = DescribedDevice("h200").value();
  const PlanResult tight =
      MakePlan(program, {.budget_bytes = 16 * kKiB, .policy = "liveness", .kernels = options}, h200,
               catalog)
          .value();
  CHECK(tight.stats.measured_runs == 0);
  const PlanResult ample = MakePlan(program, {.kernels = options}, h200, catalog).value();
  CHECK(ample.stats.measured_runs > 0);
}

TEST_CASE("parts alone, without the whole batch, are known by chance") {
  const Program program = OneConvolution(4);
  testing::WorkspaceCatalog catalog;
  const auto timings =
      std::make_shared<MadeUpTimings>(std::vector<TimedEngine>{{"fast", 1, 4500, 6e-4}});
  const EngineTable table = TableOf(program, catalog, {.timings = timings}).value();
  CHECK(table.FirstThatFits(kConvolution, 4500).parts.size() == 1);
}

TEST_CASE("without divisions the whole batch is run at once, within a limit what fits it") {
  const Program program = OneConvolution(4);  // 16 bytes an image: parts may begin anywhere
  testing::WorkspaceCatalog catalog;
  KernelOptions options = {.timings = std::make_shared<MadeUpTimings>(kMeasured),
                           .divisions = DivisionPolicy::kUndivided};
  const EngineTable whole = TableOf(program, catalog, options).value();
  CHECK(EngineOf(whole.FirstThatFits(kConvolution, 8999)) == "medium");
  options = {.timings = options.timings, .workspace_limit_bytes = 4500};
  const EngineTable limited = TableOf(program, catalog, options).value();
  CHECK(limited.FirstThatFits(kConvolution, kGiB).parts.size() == 2);
}

TEST_CASE("in strict mode times change nothing but the prediction") {
  const Program program = OneConvolution();
  testing::WorkspaceCatalog catalog;
  const auto timings = std::make_shared<MadeUpTimings>(
      std::vector<TimedEngine>{{"fast", 2, 9000, 3e-3}, {"small", 2, 600, 1e-3}});
  const EngineTable table = TableOf(program, catalog, {.timings = timings}, true).value();
  CHECK(EngineOf(table.FirstThatFits(kConvolution, kGiB)) == "fast");
  CHECK(table.FirstThatFits(kConvolution, kGiB).seconds == doctest::Approx(3e-3));
}

TEST_CASE("in strict mode the engine is the same where the database says that it failed") {
  const Program program = OneConvolution();
  testing::WorkspaceCatalog catalog;
  const auto timings = std::make_shared<MadeUpTimings>(std::vector<TimedEngine>{});
  timings->failed = {{"fast", 2}};
  const KernelOptions options = {.timings = timings};
  const EngineTable strict = TableOf(program, catalog, options, /*strict=*/true).value();
  CHECK(EngineOf(strict.FirstThatFits(kConvolution, kGiB)) == "fast");
  const EngineTable table = TableOf(program, catalog, options).value();
  CHECK(EngineOf(table.FirstThatFits(kConvolution, kGiB)) == "medium");
}

TEST_CASE("a gradient that is added to a sum takes time, and is measured if the addition is") {
  Graph net({.name = "fork", .batch = 2});
  const std::string stem =
      net.Add("stem", FullyConnected{.out_features = 3}, {net.Input({1, 4, 4})});
  const Convolution branch = {.out_channels = 3, .kernel = 1};
  net.Loss(
      net.Add("join", Add{}, {net.Add("left", branch, {stem}), net.Add("right", branch, {stem})}),
      SoftmaxCrossEntropy{});
  const Program program = BuildProgram(net, {}).value();
  const auto sums = [](const Step& step) {
    return step.phase == Phase::kBackwardData && !step.accumulates.empty();
  };
  const auto step = std::find_if(program.steps.begin(), program.steps.end(), sums);
  REQUIRE(step != program.steps.end());
  testing::WorkspaceCatalog catalog;
  const auto first = [&](std::optional<double> addition_seconds) {
    const auto timings = std::make_shared<MadeUpTimings>(kMeasured);
    timings->addition_seconds = addition_seconds;
    const EngineTable table = TableOf(program, catalog, {.timings = timings}).value();
    return table.Of({.step = step->id}).configurations.front();
  };
  CHECK(first(5e-3).source == TimeSource::kMeasured);
  CHECK(first(5e-3).seconds == doctest::Approx(first(0).seconds + 5e-3));
  CHECK_FALSE(first({}).source == TimeSource::kMeasured);
  CHECK(first({}).seconds > first(0).seconds);  // the cost model's
}

// Updates have two engines, one of them measured in all the workspace that it wants.
class UpdateCatalog final : public EngineCatalog {
 public:
  absl::StatusOr<std::vector<Engine>> Engines(const StepSignature& signature) override {
    if (signature.phase != Phase::kUpdate) return std::vector<Engine>{{.id = "only"}};
    return std::vector<Engine>{{.id = "wide", .workspace_bytes = 8 * kKiB}, {.id = "narrow"}};
  }
  std::string Versions() const override { return ""; }
};
class UpdateTimings final : public KernelTimings {
 public:
  std::vector<TimedEngine> Of(const StepSignature& signature) const override {
    if (signature.phase != Phase::kUpdate) return {};
    return {{.engine = "wide", .batch = 1, .workspace_bytes = 8 * kKiB, .seconds = 1e-3}};
  }
};

// By the name of the step.
std::map<std::string, std::vector<EngineUse>> EnginesIn(const Plan& plan, const Program& program) {
  std::map<std::string, std::vector<EngineUse>> engines;
  for (const Action& action : plan.actions) {
    if (const auto* compute = std::get_if<ComputeAction>(&action))
      engines[program.StepName(program.steps[compute->step.index()])] = compute->engines;
  }
  return engines;
}

using Parts = std::vector<EngineUse>;

TEST_CASE("of what has no batch, an update, a plan names the engine for the whole of the net's") {
  Graph net({.name = "one", .batch = 16});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 3}, {net.Input({1, 2, 2})}),
           SoftmaxCrossEntropy{});
  const Program program = BuildProgram(net, {}).value();
  UpdateCatalog catalog;
  const auto update = [&](const PlannerOptions& options) {
    const absl::StatusOr<PlanResult> result =
        MakePlan(program, options, DescribedDevice("h200").value(), catalog);
    REQUIRE_MESSAGE(result.ok(), result.status());
    CHECK(Verify(result->plan).ok());
    return EnginesIn(result->plan, program).at("fc update");
  };
  const KernelOptions measured = {.timings = std::make_shared<UpdateTimings>()};
  const DeviceDescription h200 = DescribedDevice("h200").value();
  const int64_t least =
      MinimumBudget(program, {.policy = "liveness", .kernels = measured}, h200, catalog).value();
  CHECK(update({}) == Parts{{"wide", 16}});                     // the library's order
  CHECK(update({.kernels = measured}) == Parts{{"wide", 16}});  // the fastest
  CHECK(update({.budget_bytes = least, .policy = "liveness", .kernels = measured}) ==
        Parts{{"narrow", 16}});
}

TEST_CASE("a plan names the one engine that there is, unless that has no name of its own") {
  const Program program = OneConvolution();
  const auto timings =
      std::make_shared<MadeUpTimings>(std::vector<TimedEngine>{{"eng7", 2, 9000, 1e-3}});
  MeasuredCatalog measured(*timings, "lib 1", /*library=*/nullptr);
  const auto engines = [&](EngineCatalog& catalog, const KernelOptions& kernels) {
    const absl::StatusOr<PlanResult> result =
        MakePlan(program, {.kernels = kernels}, DescribedDevice("h200").value(), catalog);
    REQUIRE_MESSAGE(result.ok(), result.status());
    return EnginesIn(result->plan, program);
  };
  const auto by_measured = engines(measured, {.timings = timings});
  CHECK(by_measured.at("conv forward") == Parts{{"eng7", 2}});
  CHECK(by_measured.at("loss forward").empty());
  DefaultCatalog unknown;
  CHECK(engines(unknown, {}).at("conv forward").empty());
  testing::WorkspaceCatalog own;
  CHECK(engines(own, {}).at("loss forward").empty());
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

#include "neap/memory/engines/engine_table.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "neap/core/verifier/verifier.h"
#include "neap/layers/catalog/default_catalog.h"
#include "neap/layers/catalog/measured_catalog.h"
#include "neap/layers/convolution.h"
#include "neap/layers/devices/device_description.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/join.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/memory/planner.h"
#include "tests/layers/made_up_timings.h"
#include "tests/memory/engines/engine_tables.h"
#include "tests/memory/engines/workspace_catalog.h"

namespace neap {
namespace {

using testing::EngineOf;
using testing::kConvolution;
using testing::kMeasured;
using testing::MadeUpTimings;
using testing::OneConvolution;
using testing::TableOf;
using testing::UnstableCatalog;

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

TEST_CASE("strict mode has one engine: the first within its workspace, else the smallest") {
  const Program program = OneConvolution();
  testing::WorkspaceCatalog catalog;
  const EngineTable table = TableOf(program, catalog, {}, /*strict=*/true).value();
  for (const int64_t free_bytes : {int64_t{0}, kGiB})
    CHECK(EngineOf(table.FirstThatFits(kConvolution, free_bytes)) == "fast");
  CHECK(EngineOf(table.Smallest(kConvolution)) == "fast");
}

// One engine needs 400 MiB for a convolution, and one without workspace takes `slowdown` times as
// long by its own account.
class RoomCatalog final : public EngineCatalog {
 public:
  RoomCatalog(int64_t bytes, double slowdown) : bytes_(bytes), slowdown_(slowdown) {}
  absl::StatusOr<std::vector<Engine>> Engines(const StepSignature& signature) override {
    if (!IsDivisible(signature)) return std::vector<Engine>{{.id = std::string(kOwnEngine)}};
    return std::vector<Engine>{{.id = "unstable", .deterministic = false},
                               {.id = "fast", .workspace_bytes = bytes_},
                               {.id = "slow", .slowdown = slowdown_}};
  }
  std::string Versions() const override { return ""; }

 private:
  int64_t bytes_;
  double slowdown_;
};

TEST_CASE("strict mode has more workspace for an engine without which a step is much slower") {
  const Program program = OneConvolution();
  const auto engine = [&](int64_t bytes, double slowdown) {
    RoomCatalog catalog(bytes, slowdown);
    const EngineTable table = TableOf(program, catalog, {}, /*strict=*/true).value();
    return EngineOf(table.FirstThatFits(kConvolution, 0));
  };
  CHECK(engine(400 * kMiB, 0) == "slow");  // of which nothing is known
  CHECK(engine(400 * kMiB, 1.4) == "slow");
  CHECK(engine(400 * kMiB, 1.5) == "fast");
  CHECK(engine(400 * kMiB, 40) == "fast");
  CHECK(engine(513 * kMiB, 40) == "slow");
  CHECK(engine(64 * kMiB, 0) == "fast");
}

TEST_CASE("engines that were not measured are taken to be slower, the later they are listed") {
  testing::WorkspaceCatalog catalog;
  const EngineTable table = TableOf(OneConvolution(), catalog).value();
  const std::vector<Configuration>& engines = table.Of(kConvolution).configurations;
  REQUIRE(engines.size() == 3);
  CHECK(engines[1].seconds == doctest::Approx(1.1 * engines[0].seconds));
  CHECK(engines[2].seconds == doctest::Approx(1.2 * engines[0].seconds));
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

}  // namespace
}  // namespace neap

#include "apps/bench/workspace_comparison.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "neap/layers/devices/device_description.h"
#include "tests/memory/engines/workspace_catalog.h"

namespace neap::apps {
namespace {

// LeNet on a GPU that is not there, with engines that differ in workspace.
PlanTarget Target() {
  PlanTarget target = {.description = DescribedDevice("h200").value(),
                       .catalog = std::make_unique<testing::WorkspaceCatalog>()};
  target.kernels.timings = std::make_shared<testing::WorkspaceTimings>();
  return target;
}
NetFlags Lenet() {
  NetFlags net;
  net.name = "lenet";
  return net;
}
WorkspaceBenchOptions Options() {
  return {.budgets_bytes = {kKiB, 24 * kMiB, 256 * kMiB},
          .batches = {32, 64},
          .limits_bytes = {kMiB, 16 * kMiB}};
}
const auto kGoOn = [](const WorkspaceRun& /*next*/) { return true; };

int64_t MostWorkspace(const WorkspaceRun& run) {
  int64_t most = 0;
  for (const WorkspaceStep& step : run.steps) most = std::max(most, step.workspace_bytes);
  return most;
}

TEST_CASE("the rule best is predicted to be as fast as either rule, within the limits") {
  const PlanTarget target = Target();
  WorkspaceBench bench(Options(), Lenet(), target, {});
  CHECK(bench.Rules() == std::vector<std::string>{"best", "left-over", "gain", "limit 1.000 MiB",
                                                  "limit 16.000 MiB"});
  const std::vector<WorkspaceRun> runs = bench.Run(kGoOn).value();
  REQUIRE(static_cast<int64_t>(runs.size()) == bench.size());
  for (size_t i = 0; i < runs.size(); i += 5) {
    CAPTURE(i);
    for (size_t rule = 0; rule < 5; ++rule) {
      CHECK(runs[i + rule].rule == bench.Rules()[rule]);
      REQUIRE(runs[i + rule].speed.has_value() == (i >= 10));
      if (i < 10) continue;
      CHECK(!runs[i + rule].speed->measured.has_value());
      CHECK(runs[i].speed->predicted >= runs[i + rule].speed->predicted * (1 - 1e-9));
    }
    CHECK(MostWorkspace(runs[i + 3]) <= RoundUp(kMiB, kBlockBytes));
    CHECK(MostWorkspace(runs[i + 4]) <= RoundUp(16 * kMiB, kBlockBytes));
  }
  const WorkspaceRun& roomy = runs[20];
  CHECK(MostWorkspace(roomy) > 16 * kMiB);
  REQUIRE(roomy.steps.size() == 5);
  CHECK(roomy.steps[0].configuration == "fast");
}

TEST_CASE("equal plans are trained once, and a plan that does not fit the device is left out") {
  const PlanTarget target = Target();
  std::vector<int64_t> budgets_bytes;
  WorkspaceBench bench(Options(), Lenet(), target,
                       [&](const Graph& /*graph*/, const PlannerOptions& options) {
                         budgets_bytes.push_back(options.budget_bytes);
                         return options.budget_bytes < kGiB / 8
                                    ? absl::StatusOr<double>(absl::ResourceExhaustedError(""))
                                    : absl::StatusOr<double>(7);
                       });
  const std::vector<WorkspaceRun> runs = bench.Run(kGoOn).value();
  for (const WorkspaceRun& run : runs) {
    if (run.budget_bytes == kKiB) CHECK(!run.speed.has_value());
    if (run.budget_bytes == 24 * kMiB) CHECK(!run.speed->measured.has_value());
    if (run.budget_bytes == 256 * kMiB) CHECK(run.speed->measured == 7);
  }
  // With room for everything the three rules are one plan, and each limit another.
  CHECK(std::count(budgets_bytes.begin(), budgets_bytes.end(), 256 * kMiB) == 2 * 3);
  CHECK(std::count(budgets_bytes.begin(), budgets_bytes.end(), kKiB) == 0);
}

TEST_CASE("an interrupted bench reports the completed runs") {
  const PlanTarget target = Target();
  int64_t trained = 0;
  WorkspaceBench cancelled(Options(), Lenet(), target,
                           [&](const Graph& /*graph*/, const PlannerOptions& /*options*/) {
                             return ++trained > 2 ? absl::StatusOr<double>(absl::CancelledError(""))
                                                  : absl::StatusOr<double>(7);
                           });
  std::vector<std::string> begun;
  const std::vector<WorkspaceRun> runs = cancelled
                                             .Run([&](const WorkspaceRun& next) {
                                               begun.push_back(next.rule);
                                               return true;
                                             })
                                             .value();
  REQUIRE(!runs.empty());
  CHECK(std::ssize(begun) == std::ssize(runs) + 1);
  CHECK(runs.back().budget_bytes == 24 * kMiB);
  for (const WorkspaceRun& run : runs)
    CHECK((run.speed.has_value() && run.speed->measured.has_value()) == (run.budget_bytes > kKiB));
  WorkspaceBench stopped(Options(), Lenet(), target, {});
  int64_t asked = 0;
  CHECK(stopped.Run([&](const WorkspaceRun&) { return ++asked <= 7; }).value().size() == 7);
}

TEST_CASE("any other failure of a training run ends the bench") {
  const PlanTarget target = Target();
  WorkspaceBench bench(Options(), Lenet(), target,
                       [](const Graph& /*graph*/, const PlannerOptions& /*options*/) {
                         return absl::StatusOr<double>(absl::InternalError("lost"));
                       });
  CHECK(absl::IsInternal(bench.Run(kGoOn).status()));
}

}  // namespace
}  // namespace neap::apps

#include "apps/bench/conv_comparison.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "apps/bench/conv_chart.h"
#include "apps/bench/conv_report.h"
#include "neap/core/step/divided_kernel.h"
#include "neap/core/step/signature_text.h"
#include "neap/layers/convolution.h"

namespace neap::apps {
namespace {

// One engine, ten bytes and a second for an image; on eight images at once two seconds less.
class MadeUpTimings final : public KernelTimings {
 public:
  std::vector<TimedEngine> Of(const StepSignature& signature) const override {
    std::vector<TimedEngine> engines;
    for (int64_t batch : {1, 2, 4, 8}) {
      if (signature.layer.type() != Convolution::kType || batch > BatchOf(signature)) continue;
      engines.push_back({.engine = "e,1",
                         .batch = batch,
                         .workspace_bytes = 10 * batch,
                         .seconds = static_cast<double>(batch == 8 ? 6 : batch)});
    }
    return engines;
  }
};

// That engine alone.
class OneEngine final : public EngineCatalog {
 public:
  absl::StatusOr<std::vector<Engine>> Engines(const StepSignature& signature) override {
    return std::vector<Engine>{{.id = "e,1", .workspace_bytes = 10 * BatchOf(signature)}};
  }
  std::string Versions() const override { return ""; }
};

// Two kinds of kernels, of eight images and of four; three of the first.
std::vector<ConvKernel> SomeKernels() {
  const std::string columns =
      "source,W,H,C_in,N,C_out,kernel_w,kernel_h,pad_w,pad_h,stride_w,stride_h\n";
  std::vector<ConvKernel> all =
      ReadShapeList(columns + "a<b,8,8,4,8,4,1,1,0,0,1,1\nc,8,8,4,4,4,1,1,0,0,1,1\n", {}).value();
  all[0].count = 3;
  return {all[0], all[3]};  // forward
}

ConvKernel BackwardParamsKernel() {
  const std::string list =
      "source,W,H,C_in,N,C_out,kernel_w,kernel_h,pad_w,pad_h,stride_w,stride_h\n"
      "d,8,8,4,8,4,1,1,0,0,1,1\n";
  const std::vector<ConvKernel> all = ReadShapeList(list, {}).value();
  return *std::find_if(all.begin(), all.end(), [](const ConvKernel& kernel) {
    return kernel.signature.phase == Phase::kBackwardParams;
  });
}

struct Executions {
  std::vector<std::string> configurations;

  // Twice as long as predicted.
  ConvBench::Execute Execute() {
    return [this](const StepSignature& signature, const Configuration& configuration) {
      configurations.push_back(std::to_string(BatchOf(signature)) + ": " +
                               ToString(configuration.parts));
      return absl::StatusOr<double>(2 * configuration.seconds);
    };
  }
};

ConvBenchResult Run(const ConvBenchOptions& options, Executions& executions) {
  const MadeUpTimings timings;
  OneEngine catalog;
  ProgressLine line("execute", "kernels");
  return ConvBench(options, timings, catalog, line, executions.Execute())
      .Run(SomeKernels())
      .value();
}

TEST_CASE("each limit has the best undivided step and the best division") {
  Executions executions;
  const ConvBenchResult result = Run({.limits_bytes = {40, 80}}, executions);
  const ConvAtLimit& tight = result.kernels[0].at_limits[0];
  CHECK(!tight.undivided.has_value());  // eight images want 80 bytes
  CHECK(ToString(tight.divided->configuration.parts) == "2 x 4 e,1");
  CHECK(tight.divided->seconds.predicted == 8);
  CHECK(tight.divided->seconds.executed == 16);
  CHECK(!tight.speedup().has_value());
  const ConvAtLimit& wide = result.kernels[0].at_limits[1];
  CHECK(wide.undivided->seconds.executed == 12);
  CHECK(wide.speedup() == 1.0);
}

TEST_CASE("totals count every kernel as often as it occurs, without those that fit only divided") {
  Executions executions;
  const ConvBenchResult result = Run({.limits_bytes = {5, 20, 40, 80}}, executions);
  CHECK(result.totals[0].left_out == 4);
  CHECK(result.totals[0].only_divided == 0);
  CHECK(!result.totals[0].speedup().has_value());
  CHECK(result.totals[1].left_out == 0);
  CHECK(result.totals[1].only_divided == 4);
  CHECK(result.totals[1].only_divided_seconds.executed == 2 * (3 * 8 + 4));
  CHECK(!result.totals[1].speedup().has_value());
  CHECK(result.totals[2].left_out == 0);
  CHECK(result.totals[2].only_divided == 3);
  CHECK(result.totals[2].only_divided_seconds.predicted == 3 * 8);
  CHECK(result.totals[2].divided.predicted == 4);
  CHECK(result.totals[2].speedup() == 1.0);
  const ConvBenchReport report = {.subject = {}, .result = result};
  CHECK(
      ToText(report).find("1.00x  without 3 that fit only divided, in 48000.0000 (24000.0000)\n") !=
      std::string::npos);
  const Json total = ToJson(report).at("totals").at(2);
  CHECK(total.at("only_divided") ==
        Json{{"kernels", 3}, {"ms", 48000.0}, {"predicted_ms", 24000.0}});
  CHECK(total.at("left_out") == 0);
  CHECK(result.totals[3].left_out == 0);
  CHECK(result.totals[3].only_divided == 0);
  CHECK(result.totals[3].divided.predicted == 3 * 6 + 4);
  CHECK(result.totals[3].divided.executed == 2 * (3 * 6 + 4));
}

TEST_CASE("a configuration that is the best for several limits is executed once") {
  Executions executions;
  Run({.limits_bytes = {80, 100, 200}}, executions);
  // At last for the one workspace, where ten bytes do for as fast a way.
  CHECK(executions.configurations == std::vector<std::string>{"8: e,1", "4: e,1", "4: 4 x 1 e,1"});
}

TEST_CASE("one workspace for all kernels is divided where it saves the most time") {
  Executions executions;
  // 65 bytes for each: none of eight images has its 80. Together they let three of them.
  const ConvBenchResult result = Run({.limits_bytes = {80}, .total_bytes = 260}, executions);
  const WorkspaceComparison& workspace = *result.workspace;
  CHECK(workspace.kernels == 4);
  CHECK(workspace.limit_bytes() == 65);
  CHECK(workspace.separate->predicted == 3 * 8 + 4);
  CHECK(workspace.divided->predicted == 3 * 6 + 4);
  CHECK(workspace.used_bytes == 3 * 80 + 10);
  CHECK(workspace.gap < 1e-4);
  CHECK(*workspace.speedup() == doctest::Approx(28.0 / 22));
}

TEST_CASE("a total that no division fits has no times") {
  Executions executions;
  const ConvBenchResult result = Run({.limits_bytes = {80}, .total_bytes = 39}, executions);
  const WorkspaceComparison& workspace = *result.workspace;
  CHECK(!workspace.separate.has_value());
  CHECK(!workspace.divided.has_value());
  CHECK(!workspace.speedup().has_value());
}

TEST_CASE("by default kernels share 8 MiB each, and engines that need more are not measured") {
  ConvBenchOptions options = {.limits_bytes = {8 * kMiB}};
  CHECK(options.TotalBytes(SomeKernels()) == 32 * kMiB);
  CHECK(options.MeasuredWorkspaceBytes(SomeKernels()) == 32 * kMiB);
  options.limits_bytes = {8 * kMiB, 64 * kMiB};
  CHECK(options.MeasuredWorkspaceBytes(SomeKernels()) == 64 * kMiB);
}

TEST_CASE("a kernel that does not fit is a dash, an empty CSV field, null and no bar") {
  Executions executions;
  const ConvBenchReport report = {
      .subject = {.set = "made up"},
      .result = Run({.limits_bytes = {5, 80}, .total_bytes = 30}, executions)};
  const std::string text = ToText(report);
  CHECK(text.find("         -         -  -\n") != std::string::npos);
  CHECK(text.find("a<b 1 forward, 8x4x8x8 * 4x4x1x1 -> 8x4x8x8, 3 of them\n") != std::string::npos);
  CHECK(text.find("without 4 that do not fit") != std::string::npos);
  CHECK(text.find("  divided  -, speedup -\n") != std::string::npos);
  const std::string csv = ToCsv(report.result);
  CHECK(csv.find(",3,5,,,,,,,,,\n") != std::string::npos);
  CHECK(csv.find(",80,\"e,1\",12000.000000,") != std::string::npos);
  const Json json = ToJson(report);
  CHECK(json.at("kernels").at(0).at("limits").at(0).at("divided").is_null());
  CHECK(json.at("workspace_division").at("divided").is_null());
  const std::string svg = SpeedupChart(report);
  CHECK(svg.find(">a&lt;b 1 forward</text>") != std::string::npos);
  CHECK(svg.find("width=\"0.0\"") != std::string::npos);
}

// Executions, of which those with a part of so many images fail.
struct FailingExecutions {
  int64_t failing_images = 0;
  std::vector<std::string> configurations;

  ConvBenchResult Run(const ConvBenchOptions& options) {
    const MadeUpTimings timings;
    OneEngine catalog;
    const auto execute = [this](const StepSignature&,
                                const Configuration& configuration) -> absl::StatusOr<double> {
      configurations.push_back(ToString(configuration.parts));
      for (const EngineUse& part : configuration.parts) {
        if (part.batch == failing_images) return absl::AbortedError("no such kernel");
      }
      return 2 * configuration.seconds;
    };
    ProgressLine line("execute", "kernels");
    return ConvBench(options, timings, catalog, line, execute).Run({SomeKernels()[0]}).value();
  }
};

TEST_CASE("an engine that does not run is left out, and the kernel is planned again") {
  FailingExecutions executions = {.failing_images = 8};
  const ConvBenchResult result = executions.Run({.limits_bytes = {80}, .total_bytes = 240});
  CHECK(executions.configurations == std::vector<std::string>{"e,1", "2 x 4 e,1", "8 x 1 e,1"});
  CHECK(result.engines_left_out == 1);
  const ConvAtLimit& at = result.kernels[0].at_limits[0];
  CHECK(!at.undivided.has_value());
  CHECK(at.divided->seconds.predicted == 8);
  CHECK(result.totals[0].only_divided == 3);
  CHECK(result.workspace->divided->predicted == 3 * 8);
  const ConvBenchReport report = {.subject = {}, .result = result};
  CHECK(ToText(report).find("\n1 engine left out: ") != std::string::npos);
  CHECK(ToJson(report).at("engines_left_out") == 1);
}

TEST_CASE("a bench that is interrupted while it divides one workspace says so") {
  Executions executions;
  ConvBenchReport report = {.subject = {}, .result = Run({.limits_bytes = {80}}, executions)};
  CHECK(ToText(report).find("interrupted") == std::string::npos);
  report.result.workspace.reset();
  CHECK(ToText(report).find("\ninterrupted after 2 of 2 kernels, before one workspace was divided "
                            "among them (WD); run again, the ") != std::string::npos);
  report.result.kernels.pop_back();
  CHECK(ToText(report).find("\ninterrupted after 1 of 2 kernels; ") != std::string::npos);
}

TEST_CASE("one workspace is divided again without an engine that does not run") {
  FailingExecutions executions = {.failing_images = 8};
  // Within the limit nobody takes the eight images at once; within the total all three do.
  const ConvBenchResult result = executions.Run({.limits_bytes = {40}, .total_bytes = 240});
  CHECK(executions.configurations == std::vector<std::string>{"2 x 4 e,1", "e,1", "8 x 1 e,1"});
  CHECK(result.engines_left_out == 1);
  CHECK(result.workspace->divided->executed == 2 * 3 * 8);
}

TEST_CASE("a kernel of which every engine fails is a dash, and the bench continues") {
  const MadeUpTimings timings;
  OneEngine catalog;
  ProgressLine line("execute", "kernels");
  ConvBench bench({.limits_bytes = {80}}, timings, catalog, line,
                  [](const StepSignature&, const Configuration&) -> absl::StatusOr<double> {
                    return absl::AbortedError("no such kernel");
                  });
  const ConvBenchResult result = bench.Run(SomeKernels()).value();
  CHECK(result.engines_left_out == 4);  // 8, 4, 2 and 1 images; the kernels are one operation
  CHECK(!result.totals[0].speedup().has_value());
  CHECK(!result.workspace->divided.has_value());
}

// The fastest for eight images are six of one engine and two of another.
class MixedTimings final : public KernelTimings {
 public:
  std::vector<TimedEngine> Of(const StepSignature&) const override {
    return {{.engine = "a", .batch = 6, .workspace_bytes = 8, .seconds = 3},
            {.engine = "b", .batch = 2, .workspace_bytes = 8, .seconds = 1},
            {.engine = "c", .batch = 2, .workspace_bytes = 8, .seconds = 9}};
  }
};

TEST_CASE("if a configuration fails, only the engine that fails by itself is left out") {
  const MixedTimings timings;
  OneEngine catalog;
  std::vector<std::string> configurations;
  const auto execute = [&](const StepSignature&,
                           const Configuration& configuration) -> absl::StatusOr<double> {
    configurations.push_back(ToString(configuration.parts));
    if (configurations.back().find('b') != std::string::npos) return absl::AbortedError("b");
    return configuration.seconds;
  };
  ProgressLine line("execute", "kernels");
  ConvBench bench({.divisions = DivisionPolicy::kAll, .limits_bytes = {80}}, timings, catalog, line,
                  execute);
  bench.Run({SomeKernels()[0]}).value();
  CHECK(configurations == std::vector<std::string>{"6 a + 2 b", "a", "b", "6 a + 2 c"});
}

// Four images by either of two engines; both add to gradients by themselves.
class AddingTimings final : public KernelTimings {
 public:
  std::vector<TimedEngine> Of(const StepSignature&) const override {
    return {{.engine = "a", .batch = 4, .workspace_bytes = 8, .seconds = 1},
            {.engine = "b", .batch = 4, .workspace_bytes = 8, .seconds = 9}};
  }
};
class AddingCatalog final : public EngineCatalog {
 public:
  absl::StatusOr<std::vector<Engine>> Engines(const StepSignature& signature) override {
    std::vector<Engine> engines = {{.id = "b", .workspace_bytes = 8}};
    if (!AddsToGradients(signature) || !has_withdrawn) engines.push_back({"a", 8});
    return engines;
  }
  std::string Versions() const override { return ""; }

  bool has_withdrawn = false;
};

TEST_CASE("an engine that fails only when it accumulates is named and kept for the first part") {
  for (const bool withdraws : {true, false}) {
    CAPTURE(withdraws);
    const AddingTimings timings;
    AddingCatalog catalog;
    std::vector<std::string> configurations;
    const auto execute = [&](const StepSignature& signature,
                             const Configuration& configuration) -> absl::StatusOr<double> {
      const std::vector<EngineUse>& parts = configuration.parts;
      configurations.push_back(ToString(parts) + (AddsToGradients(signature) ? ", adding" : ""));
      if (parts.back().engine != "a" || !(parts.back().adds || AddsToGradients(signature)))
        return configuration.seconds;
      catalog.has_withdrawn = withdraws;
      return absl::AbortedError("cannot add");
    };
    ProgressLine line("execute", "kernels");
    ConvBench bench({.limits_bytes = {80}}, timings, catalog, line, execute);
    const ConvKernel kernel = BackwardParamsKernel();
    const ConvBenchResult result = bench.Run({kernel}).value();
    // In the total, where scratch fits, it is the later part as well.
    CHECK(configurations ==
          std::vector<std::string>{"4 a += 4 a", "a", "a, adding", "4 a += 4 b", "2 x 4 a"});
    CHECK(result.engines_left_out == 1);
    CHECK(result.kernels[0].at_limits[0].divided->seconds.predicted == 10);
  }
}

TEST_CASE("an execution that fails for another reason ends the bench") {
  const MadeUpTimings timings;
  OneEngine catalog;
  ProgressLine line("execute", "kernels");
  ConvBench bench({.limits_bytes = {80}}, timings, catalog, line,
                  [](const StepSignature&, const Configuration&) -> absl::StatusOr<double> {
                    return absl::InternalError("the device is lost");
                  });
  CHECK(bench.Run(SomeKernels()).status() == absl::InternalError("the device is lost"));
}

TEST_CASE("the front of a kernel is what WD chooses from, and each kernel has a segment") {
  Executions executions;
  const ConvBenchResult result = Run({.limits_bytes = {40, 80}, .total_bytes = 140}, executions);
  std::vector<std::string> front;
  for (const Configuration& one : result.kernels[0].front)
    front.push_back(std::to_string(one.workspace_bytes) + ": " + ToString(one.parts));
  // Parts of one image are as fast as those of four; eight at once are faster.
  CHECK(front == std::vector<std::string>{"10: 8 x 1 e,1", "80: e,1"});
  const WorkspaceComparison& workspace = *result.workspace;
  REQUIRE(workspace.segments.size() == 4);  // three equal kernels, and one
  int64_t used = 0;
  double seconds = 0;
  for (size_t i = 0; i < workspace.segments.size(); ++i) {
    const WorkspaceSegment& segment = workspace.segments[i];
    CHECK(segment.kernel == (i < 3 ? 0 : 1));
    used += segment.timed.configuration.workspace_bytes;
    seconds += segment.timed.seconds.best_known();
  }
  CHECK(used == workspace.used_bytes);
  CHECK(used <= 140);
  CHECK(seconds == doctest::Approx(workspace.divided->best_known()));
  const ConvBenchReport report = {.subject = {}, .result = result};
  CHECK(ToText(report).find("desirable") == std::string::npos);
  const std::string text = ToText(report, {.fronts = true, .segments = true});
  CHECK(text.find("a<b 1 forward, 2 of them\n") != std::string::npos);
  CHECK(text.find("segments of the divided workspace") != std::string::npos);
  const Json json = ToJson(report);
  CHECK(json.at("kernels").at(0).at("front").size() == 2);
  CHECK(json.at("workspace_division").at("segments").size() == 4);
  CHECK(json.at("workspace_division").at("segments").at(3).at("kernel") == 1);
}

}  // namespace
}  // namespace neap::apps

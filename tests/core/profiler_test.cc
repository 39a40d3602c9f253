#include "neap/core/profiler.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>

#include "neap/core/device/cpu_device.h"
#include "neap/core/session.h"
#include "neap/layers/activation.h"
#include "neap/layers/conv/divided_kernel.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/profiled_timings.h"
#include "neap/layers/signature_text.h"
#include "tests/core/scratch_directory.h"
#include "tests/forwarding_device.h"

namespace neap {
namespace {

Graph SmallNet() {
  Graph net({.name = "small", .batch = 4});
  std::string x = net.Input({4, 8, 8});
  x = net.Add("conv", Convolution{.out_channels = 8, .kernel = 3, .padding = 1}, {x});
  x = net.Add("relu", Relu{}, {x});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 4}, {x}));
  return net;
}

struct Bench {
  std::unique_ptr<CpuDevice> device = CpuDevice::Open().value();
  Program program = BuildProgram(SmallNet(), {}).value();
  ScratchDirectory directory;

  ProfileDatabase Database() {
    return ProfileDatabase::Open(directory.File("profile.db"),
                                 {device->description().name, device->backend().Versions()})
        .value();
  }
};

TEST_CASE("every engine of every step has a time, convolutions on parts of the batch too") {
  Bench bench;
  ProfileDatabase database = bench.Database();
  Profiler profiler =
      Profiler::Create(KernelsOf(bench.program), {.samples = 3}, *bench.device, database).value();
  while (profiler.done() < profiler.total()) REQUIRE(profiler.MeasureNext().ok());
  CHECK(profiler.known() == 0);
  CHECK(profiler.measured() > profiler.total());
  for (const Step& step : bench.program.steps) {
    const StepSignature signature = bench.program.Signature(step);
    CAPTURE(bench.program.StepName(step));
    std::map<int64_t, size_t> engines;  // by batch
    const std::vector<Measurement> rows = database.Measurements(SignatureText(signature)).value();
    for (const Measurement& row : rows) {
      CHECK(!row.failed());
      CHECK(row.median_seconds > 0);
      ++engines[row.batch];
    }
    const int64_t batch = BatchOf(signature);
    CHECK(engines[batch] == bench.device->backend().Engines(signature)->size());
    const bool in_parts = signature.layer.type() == "convolution" && step.phase != Phase::kUpdate;
    CHECK(engines.size() == (in_parts ? 3 : 1));  // 1, 2 and 4 images
  }
}

// Whose streams can be made to have failed.
class LosableDevice final : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  bool lost = false;
  absl::Status Synchronize() override {
    return lost ? absl::InternalError("the device is lost") : ForwardingDevice::Synchronize();
  }
};

TEST_CASE("a configuration that does not run is told from a device that is lost") {
  Bench bench;
  ProfileDatabase database = bench.Database();
  LosableDevice device(*bench.device);
  const std::vector<StepSignature> steps = KernelsOf(bench.program);
  Profiler profiler = Profiler::Create(steps, {.samples = 1}, device, database).value();
  const auto step = std::find_if(steps.begin(), steps.end(), IsDivisible);
  REQUIRE(step != steps.end());
  const Engine engine = device.backend().Engines(*step).value().front();
  const Configuration runs = {.parts = {{engine.id, BatchOf(*step)}},
                              .workspace_bytes = engine.workspace_bytes};
  const Configuration unknown = {.parts = {{"no such engine", BatchOf(*step)}}};
  const Configuration too_large = {.parts = runs.parts, .workspace_bytes = int64_t{1} << 50};
  CHECK(profiler.MedianSeconds(*step, runs).value() > 0);
  const absl::Status failed = profiler.MedianSeconds(*step, unknown).status();
  CHECK(absl::IsAborted(failed));
  CHECK(failed.message().find("'no such engine'") != std::string::npos);
  CHECK(absl::IsAborted(profiler.MedianSeconds(*step, too_large).status()));
  CHECK(profiler.MedianSeconds(*step, runs).ok());
  device.lost = true;
  CHECK(profiler.MedianSeconds(*step, unknown).status() ==
        absl::InternalError("the device is lost"));
}

TEST_CASE("a profile that was stopped goes on where it was") {
  Bench bench;
  int64_t measured = 0;
  {
    ProfileDatabase database = bench.Database();
    Profiler profiler =
        Profiler::Create(KernelsOf(bench.program), {.samples = 1}, *bench.device, database).value();
    for (int i = 0; i < 3; ++i) REQUIRE(profiler.MeasureNext().ok());
    measured = profiler.measured();
    CHECK(measured > 0);
  }
  ProfileDatabase database = bench.Database();
  Profiler again =
      Profiler::Create(KernelsOf(bench.program), {.samples = 1}, *bench.device, database).value();
  for (int i = 0; i < 3; ++i) REQUIRE(again.MeasureNext().ok());
  CHECK(again.measured() == 0);
  CHECK(again.known() == measured);
}

TEST_CASE("parts of odd sizes are measured by engines that come near the fastest around them") {
  Bench bench;
  ProfileDatabase database = bench.Database();
  Graph net({.name = "conv", .batch = 3});
  net.Loss(net.Add("conv", Convolution{.out_channels = 4, .kernel = 8}, {net.Input({4, 8, 8})}));
  const Program program = BuildProgram(net, {}).value();
  const StepSignature forward = program.Signature(program.steps[0]);
  const std::string operation = SignatureText(forward);
  const std::vector<Engine> engines = bench.device->backend().Engines(forward).value();
  REQUIRE(engines.size() >= 2);
  // On 1 and 2 images the first engine is said to be slow, on 3 nothing is known.
  for (const Engine& engine : engines) {
    const double seconds = engine.id == engines[0].id ? 1.0 : 1e-3;
    for (const int64_t batch : {1, 2}) {
      REQUIRE(database
                  .Record(operation, {.batch = batch,
                                      .engine = {.id = engine.id},
                                      .median_seconds = seconds,
                                      .repeats = 1})
                  .ok());
    }
  }
  Profiler profiler = Profiler::Create({forward}, {.divisions = DivisionPolicy::kAll, .samples = 1},
                                       *bench.device, database)
                          .value();
  REQUIRE(profiler.MeasureNext().ok());  // the whole
  CHECK(profiler.measured() == static_cast<int64_t>(engines.size()) - 1);
}

TEST_CASE("a session plans with the times that were measured, and says so") {
  Bench bench;
  auto timings = [&] {
    ProfileDatabase database = bench.Database();
    Profiler profiler =
        Profiler::Create(KernelsOf(bench.program), {.samples = 1}, *bench.device, database).value();
    while (profiler.done() < profiler.total()) REQUIRE(profiler.MeasureNext().ok());
    return std::make_shared<ProfiledTimings>(std::move(database));
  }();
  const absl::StatusOr<Session> measured =
      Session::Create(SmallNet(), *bench.device, {.kernels = {.timings = timings}});
  REQUIRE(measured.ok());
  CHECK(measured->planning().measured_runs == static_cast<int64_t>(bench.program.steps.size()));
  CHECK(measured->predicted().total_us / 1e3 == doctest::Approx(measured->plan().predicted_ms));
  const absl::StatusOr<Session> plain = Session::Create(SmallNet(), *bench.device, {});
  CHECK(plain->planning().measured_runs == 0);
  CHECK(plain->plan().predicted_ms != measured->plan().predicted_ms);
}

TEST_CASE("a device too small for the largest step says so") {
  Bench bench;
  Graph net({.name = "large", .batch = 1 << 20});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 2}, {net.Input({512, 64, 64})}));
  const Program large = BuildProgram(net, {}).value();
  ProfileDatabase database = bench.Database();
  CHECK(Profiler::Create(KernelsOf(large), {}, *bench.device, database).status().code() ==
        absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace neap

#include "neap/layers/profile/profiler.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "neap/core/run/session.h"
#include "neap/core/step/divided_kernel.h"
#include "neap/core/step/signature_text.h"
#include "neap/core/step/step_signature.h"
#include "neap/layers/activation.h"
#include "neap/layers/catalog/engine_id.h"
#include "neap/layers/convolution.h"
#include "neap/layers/cpu/cpu_device.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/profile/profile_steps.h"
#include "neap/layers/profile/profiled_timings.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/memory/create_session.h"
#include "tests/layers/profile/scripted_device.h"
#include "tests/scratch_directory.h"

namespace neap {
namespace {

Graph SmallNet() {
  Graph net({.name = "small", .batch = 4});
  std::string x = net.Input({4, 8, 8});
  x = net.Add("conv", Convolution{.out_channels = 8, .kernel = 3, .padding = 1}, {x});
  x = net.Add("relu", Relu{}, {x});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 4}, {x}), SoftmaxCrossEntropy{});
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

TEST_CASE("every engine of every step has a time, convolutions also for parts of the batch") {
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

// A device whose streams can be made to fail.
class LosableDevice final : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  bool lost = false;
  absl::Status Synchronize() override {
    return lost ? absl::InternalError("the device is lost") : ForwardingDevice::Synchronize();
  }
};

TEST_CASE("a configuration that does not run is distinguished from a lost device") {
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

TEST_CASE("a stopped profile resumes where it stopped") {
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

TEST_CASE("a profile can be stopped between two engines, and keeps the completed ones") {
  Bench bench;
  const auto open = [&](ProfileDatabase& database) {
    return Profiler::Create(KernelsOf(bench.program), {.samples = 1}, *bench.device, database)
        .value();
  };
  ProfileDatabase database = bench.Database();
  Profiler stopped = open(database);
  while (stopped.MeasureNext([&] { return stopped.measured() < 2; }).ok()) {
  }
  CHECK(stopped.measured() == 2);
  const int64_t done = stopped.done();
  CHECK(absl::IsCancelled(stopped.MeasureNext([] { return false; })));
  CHECK(stopped.done() == done);
  Profiler again = open(database);
  while (again.done() <= done) REQUIRE(again.MeasureNext().ok());
  CHECK(again.known() == 2);
  CHECK(again.measured() > 0);
}

// A step of a convolution with 6 images.
StepSignature SixImages(Phase phase = Phase::kForward, int64_t out_channels = 4) {
  return SignatureOf(Convolution{.out_channels = out_channels, .kernel = 8}, phase,
                     {{{6, 4, 8, 8}}})
      .value();
}

// Profiles SixImages(), and returns the measurements for `batch` images, by engine.
std::map<std::string, Measurement> Profiled(ScriptedDevice& device, ProfileDatabase& database,
                                            const ProfileOptions& options, int64_t batch) {
  Profiler profiler = Profiler::Create({SixImages()}, options, device, database).value();
  while (profiler.done() < profiler.total() && profiler.MeasureNext().ok()) {
  }
  std::map<std::string, Measurement> rows;
  const auto found = database.Measurements(SignatureText(SixImages()), batch);
  for (const Measurement& row : *found) rows[row.engine.id] = row;
  return rows;
}

TEST_CASE("parts of odd sizes are measured with engines near the fastest on powers of two") {
  Bench bench;
  ProfileDatabase database = bench.Database();
  ScriptedDevice device(*bench.device, {{{.id = "fast"}, {1000}},
                                        {{.id = "near"}, {1100}},
                                        {{.id = "far"}, {1200}},
                                        {{.id = "small"}, {5000}},
                                        {{.id = "large", .workspace_bytes = 8}, {900}}});
  const ProfileOptions options = {.divisions = DivisionPolicy::kAll, .samples = 1};
  CHECK(Profiled(device, database, options, 4).size() == 5);
  CHECK(Profiled(device, database, options, 6).size() == 5);  // the whole batch
  const auto part = Profiled(device, database, options, 3);
  CHECK(part.size() == 3);
  for (const char* engine : {"fast", "near", "large"}) CHECK(part.contains(engine));
  // As a whole batch, 3 images are measured with all engines.
  Profiler whole = Profiler::Create({WithBatch(SixImages(), 3)},
                                    {.divisions = DivisionPolicy::kUndivided}, device, database)
                       .value();
  REQUIRE(whole.MeasureNext().ok());
  CHECK(whole.measured() == 2);
  CHECK(whole.known() == 3);
}

TEST_CASE("timing of an engine stops early after two slow samples, not after one") {
  Bench bench;
  ProfileDatabase database = bench.Database();
  // The warm-up comes first.
  ScriptedDevice device(*bench.device, {{{.id = "fast"}, {1000}},
                                        {{.id = "disturbed"}, {1000, 90000, 1010}},
                                        {{.id = "slow"}, {90000}}});
  auto rows = Profiled(device, database, {.divisions = DivisionPolicy::kUndivided}, 6);
  CHECK(rows.at("fast").repeats >= 7);
  CHECK(rows.at("disturbed").median_seconds == doctest::Approx(1.01e-3));
  CHECK(rows.at("disturbed").repeats >= 7);
  CHECK(rows.at("slow").repeats == 1);
  CHECK(rows.at("slow").median_seconds == doctest::Approx(90e-3));
}

TEST_CASE("measurements from a busy machine can be repeated") {
  Bench bench;
  ProfileDatabase database = bench.Database();
  ProfileOptions options = {.divisions = DivisionPolicy::kUndivided};
  ScriptedDevice busy(*bench.device, {{{.id = "a"}, {9000}}, {{.id = "b"}, {90000}}});
  REQUIRE(Profiled(busy, database, options, 6).at("b").repeats == 1);  // hopeless
  ScriptedDevice quiet(*bench.device, {{{.id = "a"}, {1200}}, {{.id = "b"}, {1000}}});
  CHECK(Profiled(quiet, database, options, 6).at("a").median_seconds == doctest::Approx(9e-3));
  options.again = true;
  const auto rows = Profiled(quiet, database, options, 6);
  CHECK(rows.at("a").median_seconds == doctest::Approx(1.2e-3));
  CHECK(rows.at("b").median_seconds == doctest::Approx(1e-3));
  CHECK(rows.at("b").repeats >= 7);
  // An engine that ran before and now fails.
  ScriptedDevice failing(*bench.device, {{{.id = "a"}, {-1}}, {{.id = "b"}, {1000}}});
  CHECK(Profiled(failing, database, options, 6).at("a").failed());
}

TEST_CASE("an engine that no other can replace is timed, but only briefly if it is very slow") {
  Bench bench;
  ProfileDatabase database = bench.Database();
  ScriptedDevice device(*bench.device, {{{.id = "large", .workspace_bytes = 8}, {1000}},
                                        {{.id = "small"}, {5000}},
                                        {{.id = "last resort"}, {20000}},
                                        {{.id = "for ever"}, {6e6}}});
  const auto rows = Profiled(device, database, {.divisions = DivisionPolicy::kUndivided}, 6);
  CHECK(rows.at("small").repeats >= 7);
  CHECK(rows.at("last resort").repeats == 1);
  CHECK(rows.at("last resort").median_seconds == doctest::Approx(20e-3));
  CHECK(rows.at("for ever").repeats == 1);
}

TEST_CASE("an engine that took 100 times as long in two operations is not run in a third") {
  Bench bench;
  ProfileDatabase database = bench.Database();
  ScriptedDevice device(*bench.device, {{{.id = "fast", .workspace_bytes = 8}, {1000}},
                                        {{.id = "replaces"}, {2000}},
                                        {{.id = "crawls"}, {250e3}},
                                        {{.id = "slow"}, {150e3}}});
  const auto engines_of = [&](const std::vector<StepSignature>& before, const StepSignature& step,
                              int64_t left_out) {
    std::vector<StepSignature> steps = before;
    steps.push_back(step);
    Profiler profiler =
        Profiler::Create(steps, {.divisions = DivisionPolicy::kUndivided}, device, database)
            .value();
    while (profiler.done() < profiler.total()) REQUIRE(profiler.MeasureNext().ok());
    CHECK(profiler.left_out() == left_out);
    std::vector<std::string> engines;
    const auto rows = database.Measurements(SignatureText(step), BatchOf(step));
    for (const Measurement& row : *rows) engines.push_back(row.engine.id);
    std::sort(engines.begin(), engines.end());
    return engines;
  };
  const std::vector<std::string> all = {"crawls", "fast", "replaces", "slow"};
  const StepSignature step = SixImages();
  // Two batches of one operation are not two operations.
  CHECK(engines_of({WithBatch(step, 2), WithBatch(step, 3)}, step, 0) == all);
  const std::vector<StepSignature> two = {step, SixImages(Phase::kForward, 5)};
  const std::vector<std::string> most = {"fast", "replaces", "slow"};
  CHECK(engines_of(two, SixImages(Phase::kForward, 6), 1) == most);
  CHECK(engines_of(two, SixImages(Phase::kForward, 7), 1) == most);  // what is known counts, too
  CHECK(engines_of(two, SixImages(Phase::kBackwardData), 0) == all);
}

TEST_CASE("an engine that crawls on a part of a large batch is not run on the whole") {
  Bench bench;
  ProfileDatabase database = bench.Database();
  ScriptedDevice device(*bench.device, {{{.id = "fast"}, {20e3}},
                                        {{.id = "slow"}, {31e3}},      // 64 times that is 99 times
                                        {{.id = "crawls"}, {32e3}}});  // 102 times
  const auto left_out = [&](const std::vector<int64_t>& batches) {
    std::vector<StepSignature> steps;
    for (const int64_t batch : batches) steps.push_back(WithBatch(SixImages(), batch));
    Profiler profiler =
        Profiler::Create(steps, {.divisions = DivisionPolicy::kUndivided}, device, database)
            .value();
    while (profiler.done() < profiler.total()) REQUIRE(profiler.MeasureNext().ok());
    return profiler.left_out();
  };
  CHECK(left_out({64}) == 1);
  CHECK(database.Measurements(SignatureText(SixImages()), 64)->size() == 2);
  CHECK(left_out({63}) == 0);       // no part
  CHECK(left_out({63, 128}) == 0);  // all have run well
}

TEST_CASE("an engine excludes none that is deterministic, or adds in fp32, if it does not") {
  struct Kind {
    Engine fast, other, slow;  // `slow` is of the kind of `fast`
  };
  for (const auto& [fast, other, slow] :
       {Kind{{.id = "any bits", .deterministic = false},
             {.id = "same bits"},
             {.id = "slow, any bits", .deterministic = false}},
        Kind{EngineFromText("half:fast"), {.id = "full"}, EngineFromText("half:slow")}}) {
    Bench bench;
    ProfileDatabase database = bench.Database();
    ScriptedDevice device(*bench.device, {{fast, {1000}}, {other, {5000}}, {slow, {5000}}});
    const ProfileOptions options = {.divisions = DivisionPolicy::kAll};
    auto whole = Profiled(device, database, options, 6);
    CHECK(whole.at(other.id).repeats >= 7);
    CHECK(whole.at(slow.id).repeats == 1);
    const auto part = Profiled(device, database, options, 3);
    CHECK(part.contains(other.id));
    CHECK_FALSE(part.contains(slow.id));
  }
}

TEST_CASE("adding to gradients is measured with engines that are near the fastest") {
  Bench bench;
  ProfileDatabase database = bench.Database();
  ScriptedDevice device(
      *bench.device, {{{.id = "fast"}, {1000}}, {{.id = "near"}, {1100}}, {{.id = "far"}, {1200}}});
  const StepSignature step = SixImages(Phase::kBackwardParams);
  const std::string adding = SignatureText(AddingSignature(step));
  const std::string addition = SignatureText(AdditionSignature({{4, 4, 8, 8}}));
  const auto engines_of = [&](const std::string& operation) {
    std::map<int64_t, std::vector<std::string>> engines;  // by batch
    const auto found = database.Measurements(operation);
    for (const Measurement& row : *found) engines[row.batch].push_back(row.engine.id);
    return engines;
  };
  const auto profile = [&] {
    Profiler profiler = Profiler::Create({step}, {.samples = 1}, device, database).value();
    while (profiler.done() < profiler.total()) REQUIRE(profiler.MeasureNext().ok());
  };
  profile();
  CHECK(engines_of(adding).empty());
  CHECK(engines_of(addition).size() == 1);
  device.adds = true;
  profile();
  const std::vector<std::string> near = {"fast", "near"};
  CHECK(engines_of(adding) ==
        std::map<int64_t, std::vector<std::string>>{{1, near}, {2, near}, {4, near}});
}

TEST_CASE("an engine that makes the device fail is skipped from then on, unless requested") {
  Bench bench;
  ProfileDatabase database = bench.Database();
  const ProfileOptions once = {.divisions = DivisionPolicy::kUndivided};
  const Engine harmless = {.id = "harmless"}, harmful = {.id = "harmful"};
  ScriptedDevice lost(*bench.device, {{harmful, {-1}}, {harmless, {1000}}});
  const auto first = Profiled(lost, database, once, 6);
  REQUIRE(first.size() == 1);
  CHECK(first.at("harmful").failure == "an illegal address");
  ScriptedDevice next(*bench.device, {{harmful, {1000}}, {harmless, {1000}}});
  const auto second = Profiled(next, database, once, 6);
  CHECK(second.at("harmful").failed());
  CHECK(second.at("harmless").repeats >= 7);
  const auto third =
      Profiled(next, database, {.divisions = DivisionPolicy::kUndivided, .retry_failed = true}, 6);
  CHECK_FALSE(third.at("harmful").failed());
}

TEST_CASE("a session plans with the measured times, and says so") {
  Bench bench;
  auto timings = [&] {
    ProfileDatabase database = bench.Database();
    Profiler profiler =
        Profiler::Create(KernelsOf(bench.program), {.samples = 1}, *bench.device, database).value();
    while (profiler.done() < profiler.total()) REQUIRE(profiler.MeasureNext().ok());
    return std::make_shared<ProfiledTimings>(std::move(database));
  }();
  const absl::StatusOr<Session> measured =
      CreateSession(SmallNet(), *bench.device, {.kernels = {.timings = timings}});
  REQUIRE(measured.ok());
  CHECK(measured->planning().measured_runs == static_cast<int64_t>(bench.program.steps.size()));
  CHECK(measured->predicted().total_us / 1e3 == doctest::Approx(measured->plan().predicted_ms));
  const absl::StatusOr<Session> plain = CreateSession(SmallNet(), *bench.device, {});
  CHECK(plain->planning().measured_runs == 0);
  CHECK(plain->plan().predicted_ms != measured->plan().predicted_ms);
}

TEST_CASE("a device too small for the largest step is an error") {
  Bench bench;
  Graph net({.name = "large", .batch = 1 << 20});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 2}, {net.Input({512, 64, 64})}),
           SoftmaxCrossEntropy{});
  const Program large = BuildProgram(net, {}).value();
  ProfileDatabase database = bench.Database();
  CHECK(Profiler::Create(KernelsOf(large), {}, *bench.device, database).status().code() ==
        absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace neap

#include "neap/memory/measuring/measure_kernels.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "neap/core/program/passes.h"
#include "neap/core/step/divided_kernel.h"
#include "neap/core/step/signature_text.h"
#include "neap/layers/activation.h"
#include "neap/layers/collectives/local_ranks.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/profile/profiled_timings.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/memory/planner.h"
#include "tests/memory/measuring/timed_device.h"
#include "tests/scratch_directory.h"

namespace neap {
namespace {

using doctest::Approx;
using testing::TimedDevice;

Graph Net() {
  Graph net({.name = "net", .batch = 16});
  std::string x = net.Input({4, 16, 16});
  for (int i = 0; i < 4; ++i) {
    const std::string number = std::to_string(i);
    x = net.Add("conv" + number,
                Convolution{.out_channels = 8 + 4 * i, .kernel = 3, .padding = 1, .bias = false},
                {x});
    x = net.Add("relu" + number, Relu{}, {x});
  }
  net.Loss(net.Add("fc", FullyConnected{.out_features = 4}, {x}), SoftmaxCrossEntropy{});
  return net;
}

absl::StatusOr<Program> LowerNet(const ProgramChoice& choice) {
  return BuildProgram(Net(),
                      {.offload_params = choice.offload_params, .sub_batches = choice.sub_batches});
}

struct Bench {
  std::unique_ptr<CpuDevice> cpu = CpuDevice::Open().value();
  TimedDevice device{*cpu};
  ScratchDirectory directory;
  PlannerOptions planning = {};
  PlanRequest request = {};

  ProfileDatabase Database() {
    return ProfileDatabase::Open(directory.File("profile.db"),
                                 {device.description().name, device.Versions()})
        .value();
  }
  // With the times that are in the database, as a session's planner.
  PlannerOptions Options() {
    PlannerOptions options = planning;
    options.kernels.timings = std::make_shared<ProfiledTimings>(Database());
    return options;
  }
  absl::StatusOr<MeasuringReport> Measure(MeasuringOptions options = {.seconds = 60}) {
    device.measured.clear();
    ProfileDatabase database = Database();
    return MeasureKernels(LowerNet, Options(), request, device, database, options);
  }
  // A plan's kernels by the times that they really have.
  double TrueSeconds() {
    const std::shared_ptr<const Planner> planner = PlannerFor(Options());
    const ChosenProgram chosen =
        planner->Choose(LowerNet, request, device.description(), device).value();
    const Program program = LowerNet(chosen.choice).value();
    const Plan plan = planner->Plan(program, request, device.description(), device)->plan;
    double seconds = 0;
    for (const Action& action : plan.actions) {
      const auto* const compute = std::get_if<ComputeAction>(&action);
      if (compute == nullptr) continue;
      const Step& step = program.steps[compute->step.index()];
      const StepSignature signature = program.Signature(step, compute->recompute);
      if (compute->engines.empty() || !IsDivisible(signature)) {
        seconds +=
            device.SecondsOf(signature, compute->engines.empty() ? std::string(kOwnEngine)
                                                                 : compute->engines.front().engine);
        continue;
      }
      for (const EngineUse& part : compute->engines) {
        seconds += device.SecondsOf(WithBatch(signature, part.batch), part.engine);
      }
    }
    return seconds;
  }
};

TEST_CASE("what a plan depends on is measured and recorded, and not measured again") {
  Bench bench;
  const MeasuringReport first = bench.Measure().value();
  CHECK(first.measured > 20);
  CHECK(first.failed == 0);
  CHECK(first.from_others == 0);
  CHECK(first.planned_ms > 0);
  CHECK(first.seconds > 0);
  CHECK(bench.Database().Counts()->measured == first.measured);
  // Each once.
  std::set<std::string> kernels(bench.device.measured.begin(), bench.device.measured.end());
  CHECK(kernels.size() == bench.device.measured.size());
  CHECK(static_cast<int64_t>(kernels.size()) == first.measured);

  const MeasuringReport second = bench.Measure().value();
  CHECK(second.measured == 0);
  CHECK(second.left == 0);
  CHECK(bench.device.measured.empty());
}

TEST_CASE("a plan after which nothing was measured is the session's, without a second search") {
  Bench bench;
  for (const int64_t budget_bytes : {kUnlimited, int64_t{400 * 1024}}) {
    CAPTURE(budget_bytes);
    bench.planning.budget_bytes = bench.request.budget_bytes = budget_bytes;
    REQUIRE(bench.Measure().ok());
    const MeasuringReport again = bench.Measure().value();
    REQUIRE(again.measured == 0);
    REQUIRE(again.chosen.has_value());
    const ChosenProgram& known = *again.chosen;
    const DeviceDescription& description = bench.device.description();
    const std::shared_ptr<const Planner> fresh = PlannerFor(bench.Options());
    const ChosenProgram chosen =
        fresh->Choose(LowerNet, bench.request, description, bench.device).value();
    const Program program = LowerNet(chosen.choice).value();
    CHECK(known.choice == chosen.choice);
    REQUIRE(known.plan.has_value());
    CHECK(known.plan->plan == fresh->Plan(program, bench.request, description, bench.device)->plan);
  }
}

TEST_CASE("the recorded times are those of the kernels") {
  Bench bench;
  REQUIRE(bench.Measure().ok());
  ProfileDatabase database = bench.Database();
  const Program program = LowerNet({}).value();
  int64_t rows = 0;
  for (const Step& step : program.steps) {
    const StepSignature signature = program.Signature(step);
    const std::vector<Measurement> all = database.Measurements(SignatureText(signature)).value();
    for (const Measurement& row : all) {
      const StepSignature part =
          row.batch == BatchOf(signature) ? signature : WithBatch(signature, row.batch);
      CHECK(row.median_seconds == Approx(bench.device.SecondsOf(part, row.engine.id)));
      CHECK(row.repeats >= 1);
      ++rows;
    }
  }
  CHECK(rows > 20);
}

TEST_CASE("the plan after measuring is not slower than the one before, by the true times") {
  int faster = 0;
  for (const int64_t budget_kib : {int64_t{0}, int64_t{6000}, int64_t{3000}, int64_t{2200}}) {
    CAPTURE(budget_kib);
    Bench bench;
    if (budget_kib > 0) bench.request.budget_bytes = budget_kib * kKiB;
    const double before = bench.TrueSeconds();
    REQUIRE(bench.Measure()->measured > 0);
    const double after = bench.TrueSeconds();
    CHECK(after <= before * 1.0001);
    faster += after < 0.95 * before;
  }
  CHECK(faster > 0);
}

TEST_CASE("measuring stays within its seconds, and a later run goes on where it ended") {
  Bench bench;
  bench.device.run_takes_seconds = 2e-3;  // of each of hundreds of runs
  const auto begin = std::chrono::steady_clock::now();
  const MeasuringReport report = bench.Measure({.seconds = 0.1}).value();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  CHECK(report.measured < 20);
  CHECK(report.left > 0);
  CHECK(report.seconds >= 0.1);
  CHECK(elapsed.count() < 10);  // with planning, on a machine that does more
  bench.device.run_takes_seconds = 0;
  const int64_t more = bench.Measure()->measured;
  CHECK(more > 0);
  CHECK(bench.Database().Counts()->measured == report.measured + more);
}

TEST_CASE("a user who stops it keeps what was measured") {
  Bench bench;
  std::vector<MeasuringReport> progress;
  const auto stop = [&](const MeasuringReport& report) {
    progress.push_back(report);
    return progress.size() < 3;
  };
  const MeasuringReport report = bench.Measure({.seconds = 60, .on_progress = stop}).value();
  CHECK(report.measured == 3);
  REQUIRE(progress.size() == 3);
  for (size_t i = 0; i < progress.size(); ++i)
    CHECK(progress[i].measured == static_cast<int64_t>(i) + 1);
  CHECK(bench.Database().Counts()->measured == 3);
}

TEST_CASE("engines that do not build are recorded as failed, once") {
  Bench bench;
  bench.device.failing = {"medium"};
  const MeasuringReport report = bench.Measure().value();
  CHECK(report.failed > 0);
  CHECK(bench.Database().Counts()->failed == report.failed);
  CHECK(bench.Measure()->failed == 0);
}

TEST_CASE("nothing is measured without seconds, in strict mode and on the CPU") {
  Bench bench;
  CHECK(bench.Measure({.seconds = 0})->measured == 0);
  bench.planning.strict = true;
  CHECK(bench.Measure()->measured == 0);
  bench.planning.strict = false;
  bench.request.strict = true;
  CHECK(bench.Measure()->measured == 0);
  ProfileDatabase database = bench.Database();
  const MeasuringReport on_cpu =
      MeasureKernels(LowerNet, {}, {}, *bench.cpu, database, {.seconds = 60}).value();
  CHECK(on_cpu.measured == 0);
  CHECK(bench.device.measured.empty());
  CHECK(bench.Database().Counts()->rows == 0);
}

TEST_CASE("for a plan that is refused nothing is measured, and the session says why") {
  Bench bench;
  bench.request.budget_bytes = 16 * kKiB;
  const absl::StatusOr<MeasuringReport> report = bench.Measure();
  REQUIRE(report.ok());
  CHECK(report->measured == 0);
  CHECK(report->planned_ms == 0);
  const auto refuses = [](const ProgramChoice& /*choice*/) -> absl::StatusOr<Program> {
    return absl::InvalidArgumentError("no such program");
  };
  ProfileDatabase database = bench.Database();
  CHECK(MeasureKernels(refuses, {}, {}, bench.device, database, {.seconds = 60})->measured == 0);
}

TEST_CASE("a device without memory for it measures nothing, and the session says why") {
  Bench bench;
  bench.device.allocations_left = 0;
  const absl::StatusOr<MeasuringReport> report = bench.Measure();
  REQUIRE(report.ok());
  CHECK(report->measured == 0);
  CHECK(report->left > 0);
}

// A rank's database, device and report.
struct Rank {
  Bench bench;
  absl::StatusOr<MeasuringReport> report;
  std::set<std::string> Measured() const {
    return {bench.device.measured.begin(), bench.device.measured.end()};
  }
};

// Operation, batch and engine of every row.
std::set<std::string> RowsOf(Rank& rank) {
  ProfileDatabase database = rank.bench.Database();
  const Program program = LowerNet({}).value();
  std::set<std::string> rows;
  for (const Step& step : program.steps) {
    const std::string operation = SignatureText(program.Signature(step));
    const std::vector<Measurement> all = database.Measurements(operation).value();
    for (const Measurement& row : all) {
      rows.insert(
          absl::StrCat(operation, ", ", row.batch, ", ", row.engine.id, ", ", row.median_seconds));
    }
  }
  return rows;
}

TEST_CASE("ranks measure different kernels, and each has the times of all") {
  constexpr int kRanks = 2;
  LocalRanks group(kRanks);
  std::vector<Rank> ranks(kRanks);
  std::vector<std::thread> threads;
  for (int i = 0; i < kRanks; ++i) {
    threads.emplace_back([&group, &rank = ranks[static_cast<size_t>(i)], i] {
      const std::unique_ptr<Communicator> texts = group.Join(i, *rank.bench.cpu);
      rank.report = rank.bench.Measure({.seconds = 60, .ranks = texts.get()});
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<std::string> all;
  int64_t measured = 0;
  for (const Rank& rank : ranks) {
    REQUIRE(rank.report.ok());
    CHECK(rank.report->measured > 5);
    measured += rank.report->measured;
    all.merge(rank.Measured());
  }
  CHECK(static_cast<int64_t>(all.size()) == measured);  // none by both
  CHECK(!ranks[0].report->chosen.has_value());          // the other's times came after it
  CHECK(ranks[0].report->from_others == ranks[1].report->measured);
  CHECK(ranks[1].report->from_others == ranks[0].report->measured);
  CHECK(RowsOf(ranks[0]) == RowsOf(ranks[1]));
  CHECK(ranks[0].bench.Database().Counts()->measured == measured);
  // So both plan the same.
  CHECK(ranks[0].bench.TrueSeconds() == ranks[1].bench.TrueSeconds());
}

TEST_CASE("a rank whose plan is refused leaves no other waiting") {
  LocalRanks group(2);
  std::vector<Rank> ranks(2);
  ranks[1].bench.request.budget_bytes = 16 * kKiB;
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&group, &rank = ranks[static_cast<size_t>(i)], i] {
      const std::unique_ptr<Communicator> texts = group.Join(i, *rank.bench.cpu);
      rank.report = rank.bench.Measure({.seconds = 60, .ranks = texts.get()});
    });
  }
  for (std::thread& thread : threads) thread.join();
  REQUIRE(ranks[0].report.ok());
  REQUIRE(ranks[1].report.ok());
  CHECK(ranks[0].report->measured > 0);
  CHECK(ranks[1].report->measured == 0);
  CHECK(ranks[1].report->from_others == 0);  // with another budget, other kernels matter
}

}  // namespace
}  // namespace neap

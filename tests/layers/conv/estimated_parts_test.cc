#include "neap/layers/conv/estimated_parts.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "neap/core/base/units.h"
#include "neap/core/plan/cost_features.h"
#include "neap/core/plan/cost_model.h"
#include "neap/core/step/divided_kernel.h"
#include "neap/core/step/signature_text.h"
#include "neap/layers/conv/measured_parts.h"
#include "neap/layers/conv/micro_batching.h"
#include "neap/layers/convolution.h"
#include "neap/layers/devices/device_description.h"
#include "tests/layers/made_up_timings.h"

namespace neap {
namespace {

using doctest::Approx;
using testing::MadeUpTimings;

constexpr int64_t kBatch = 128;

// The same engines for every part, with workspace in proportion to its images: that of `engines` is
// for the whole batch.
class ProportionalCatalog final : public EngineCatalog {
 public:
  ProportionalCatalog(std::vector<Engine> engines, int64_t largest)
      : engines_(std::move(engines)), largest_(largest) {}
  absl::StatusOr<std::vector<Engine>> Engines(const StepSignature& signature) override {
    if (BatchOf(signature) > largest_) return absl::UnimplementedError("too large");
    std::vector<Engine> engines = engines_;
    for (Engine& engine : engines)
      engine.workspace_bytes = engine.workspace_bytes * BatchOf(signature) / kBatch;
    return engines;
  }
  std::string Versions() const override { return ""; }

 private:
  std::vector<Engine> engines_;
  int64_t largest_;  // part for which there are engines
};

const std::vector<Engine> kEngines = {{"fast", 256 * kMiB}, {"medium", 64 * kMiB}, {"small", 0}};

StepSignature PartedStep(Phase phase = Phase::kForward, int64_t batch = kBatch) {
  const Convolution layer = {.out_channels = 64, .kernel = 3, .padding = 1};
  return SignatureOf(layer, phase, {{{batch, 64, 56, 56}}}).value();
}
double Flops(int64_t batch) { return 2.0 * static_cast<double>(batch) * 56 * 56 * 64 * 64 * 9; }

struct Estimate {
  StepSignature step = PartedStep();
  std::vector<Engine> engines = kEngines;
  DeviceDescription device = DescribedDevice("h200").value();
  DivisionPolicy divisions = DivisionPolicy::kAll;
  bool deterministic = true;
  int64_t largest = std::numeric_limits<int64_t>::max();

  std::vector<TimedEngine> With(const KernelTimings* timings) const {
    ProportionalCatalog catalog(engines, largest);
    const EstimateOptions options = {.timings = timings,
                                     .device = device,
                                     .flops = Flops(BatchOf(step)),
                                     .divisions = divisions,
                                     .deterministic = deterministic};
    const std::vector<Engine> listed = WholeEngines(step, divisions, catalog).value();
    return EstimatedPartsOf(step, listed, options, catalog).value();
  }
  std::vector<TimedEngine> WithRows(std::vector<TimedEngine> rows) const {
    const MadeUpTimings timings(std::move(rows));
    return With(&timings);
  }
  // The cost model's time of the library's first engine.
  double Model(int64_t batch) const {
    return PredictSeconds(PartedStep(step.phase, batch), Flops(batch), device);
  }
};

const TimedEngine* Find(const std::vector<TimedEngine>& known, const std::string& engine,
                        int64_t batch) {
  const TimedEngine* found = nullptr;
  for (const TimedEngine& timed : known) {
    if (timed.engine != engine || timed.batch != batch) continue;
    CHECK_MESSAGE(found == nullptr, engine, " is there twice");
    found = &timed;
  }
  return found;
}
TimedEngine Of(const std::vector<TimedEngine>& known, const std::string& engine, int64_t batch) {
  const TimedEngine* const found = Find(known, engine, batch);
  REQUIRE_MESSAGE(found != nullptr, engine, " for ", batch);
  return *found;
}

std::set<int64_t> SizesOf(const std::vector<TimedEngine>& known) {
  std::set<int64_t> sizes;
  for (const TimedEngine& timed : known) sizes.insert(timed.batch);
  return sizes;
}

TEST_CASE("without measurements the first engine has the model's time, later ones lose by place") {
  const Estimate estimate;
  const std::vector<TimedEngine> known = estimate.With(nullptr);
  for (const int64_t batch : {kBatch, kBatch / 2, kBatch / 4}) {
    CAPTURE(batch);
    const double share = static_cast<double>(batch) / kBatch;
    double slower = 1;
    for (const Engine& engine : kEngines) {
      const TimedEngine timed = Of(known, engine.id, batch);
      // No faster for each image because there are fewer of them.
      const double least = share * slower * estimate.Model(kBatch);
      CHECK(timed.seconds == Approx(std::max(slower * estimate.Model(batch), least)));
      CHECK(timed.source == TimeSource::kModel);
      CHECK(timed.workspace_bytes == engine.workspace_bytes * batch / kBatch);
      CHECK(timed.deterministic);
      slower += 0.1;
    }
  }
}

TEST_CASE("measured times are used exactly, and nothing is estimated in their place") {
  const std::vector<TimedEngine> rows = {{"fast", kBatch, 256 * kMiB, 1.25e-3},
                                         {"small", kBatch, 0, 7.5e-3},
                                         {"fast", 32, 64 * kMiB, 4e-4},
                                         {"medium", 48, 24 * kMiB, 1e-3}};
  const std::vector<TimedEngine> known = Estimate{}.WithRows(rows);
  for (const TimedEngine& row : rows) {
    CAPTURE(row.engine);
    const TimedEngine timed = Of(known, row.engine, row.batch);
    CHECK(timed.seconds == row.seconds);
    CHECK(timed.source == TimeSource::kMeasured);
    CHECK(timed.workspace_bytes == row.workspace_bytes);
  }
}

TEST_CASE("times of other versions keep their source, and calibrate only where there are no own") {
  const auto other = [](const char* engine, int64_t bytes, double seconds) {
    return TimedEngine{.engine = engine,
                       .batch = kBatch,
                       .workspace_bytes = bytes,
                       .seconds = seconds,
                       .source = TimeSource::kInterpolated};
  };
  const Estimate estimate;
  const double model = estimate.Model(kBatch);
  // The model is wrong by 3 about the other version's engine, and by 2 about the measured one.
  const TimedEngine fast = other("fast", 256 * kMiB, 3 * model);
  const std::vector<TimedEngine> only_other = estimate.WithRows({fast});
  CHECK(Of(only_other, "fast", kBatch).source == TimeSource::kInterpolated);
  CHECK(Of(only_other, "fast", kBatch).seconds == 3 * model);
  CHECK(Of(only_other, "medium", kBatch).seconds == Approx(3 * 1.1 * model));
  const std::vector<TimedEngine> both =
      estimate.WithRows({fast, {"medium", kBatch, 64 * kMiB, 2 * 1.1 * model}});
  CHECK(Of(both, "fast", kBatch).seconds == 3 * model);
  CHECK(Of(both, "fast", kBatch).source == TimeSource::kInterpolated);
  CHECK(Of(both, "medium", kBatch).source == TimeSource::kMeasured);
  CHECK(Of(both, "small", kBatch).seconds == Approx(2 * 1.2 * model));
}

TEST_CASE("between measured sizes times lie on a line, and below the smallest above one") {
  // 128 images: 8 ms, 32 images: 2.6 ms, so 64 images take 2.6 + 32 * 5.4 / 96.
  const std::vector<TimedEngine> two = Estimate{}.WithRows({{"fast", kBatch, 256 * kMiB, 8e-3},
                                                            {"small", kBatch, 0, 20e-3},
                                                            {"fast", 32, 64 * kMiB, 2.6e-3}});
  CHECK(Of(two, "fast", 64).seconds == Approx(2.6e-3 + 32 * 5.4e-3 / 96));
  CHECK(Of(two, "fast", 64).source == TimeSource::kInterpolated);
  // 16 images: above the line to a launch without images, because few images use a device badly,
  // and below the time of 32 images.
  CHECK(Of(two, "fast", 16).seconds >= kLaunchSeconds + 16 * (2.6e-3 - kLaunchSeconds) / 32);
  CHECK(Of(two, "fast", 16).seconds < 2.6e-3);
  // The other engine was measured for the whole batch only.
  CHECK(Of(two, "small", 64).seconds >= kLaunchSeconds + 64 * (20e-3 - kLaunchSeconds) / kBatch);
  CHECK(Of(two, "small", 64).seconds < 20e-3);
}

TEST_CASE("beyond the measured sizes the last slope goes on") {
  const std::vector<TimedEngine> slope =
      Estimate{}.WithRows({{"fast", 32, 64 * kMiB, 3e-3}, {"fast", 64, 128 * kMiB, 5e-3}});
  CHECK(Of(slope, "fast", kBatch).seconds == Approx(5e-3 + 64 * 2e-3 / 32));
  CHECK(Of(slope, "fast", kBatch).source == TimeSource::kInterpolated);
  const std::vector<TimedEngine> launch = Estimate{}.WithRows({{"fast", 64, 128 * kMiB, 5e-3}});
  CHECK(Of(launch, "fast", kBatch).seconds ==
        Approx(kLaunchSeconds + kBatch * (5e-3 - kLaunchSeconds) / 64));
}

TEST_CASE("disturbed times of small parts do not make a larger one faster") {
  // A line through these would reach 0 at 64 images.
  const std::vector<TimedEngine> known =
      Estimate{}.WithRows({{"fast", 16, 32 * kMiB, 3e-3}, {"fast", 32, 64 * kMiB, 2e-3}});
  CHECK(Of(known, "fast", kBatch).seconds >= 2e-3);
}

TEST_CASE("what the model is wrong about the measured engines, it is about the others") {
  const Estimate estimate;
  const double model = estimate.Model(kBatch);
  const std::vector<TimedEngine> known =
      estimate.WithRows({{"fast", kBatch, 256 * kMiB, 3 * model}});
  CHECK(Of(known, "medium", kBatch).seconds == Approx(3 * 1.1 * model));
  CHECK(Of(known, "small", kBatch).seconds == Approx(3 * 1.2 * model));
  CHECK(Of(known, "small", kBatch).source == TimeSource::kModel);
  // A slower engine than expected shows the same, but the median decides.
  const std::vector<TimedEngine> three =
      estimate.WithRows({{"fast", kBatch, 256 * kMiB, 2 * model},
                         {"medium", kBatch, 64 * kMiB, 4 * 1.1 * model},
                         {"fast", 64, 128 * kMiB, 9 * estimate.Model(64)}});
  CHECK(Of(three, "small", kBatch).seconds == Approx(4 * 1.2 * model));
}

TEST_CASE("an engine that was not measured is not faster than measured ones among its equals") {
  const DeviceDescription device = DescribedDevice("h200").value();
  std::mt19937 random(1);
  const auto part = [&] { return static_cast<double>(random()) / 4294967296.0; };
  int bound = 0;
  for (int i = 0; i < 300; ++i) {
    CAPTURE(i);
    std::vector<Engine> engines;
    std::vector<TimedEngine> rows;
    for (int k = 0; k < 6; ++k) {
      const std::string id(1, static_cast<char>('a' + k));
      const auto bytes = static_cast<int64_t>(part() * 256) * kMiB;
      engines.push_back({.id = id, .workspace_bytes = bytes});
      if (random() % 2 == 0) rows.push_back({id, kBatch, bytes, 1e-4 + 1e-2 * part()});
    }
    const std::vector<TimedEngine> known = Estimate{.engines = engines}.WithRows(rows);
    for (size_t k = 0; k < engines.size(); ++k) {
      const TimedEngine estimated = Of(known, engines[k].id, kBatch);
      if (estimated.source == TimeSource::kMeasured) continue;
      double fastest = 0;  // of those before it in the library's order
      for (size_t before = 0; before < k; ++before) {
        const TimedEngine other = Of(known, engines[before].id, kBatch);
        if (other.source != TimeSource::kMeasured) continue;
        fastest = fastest == 0 ? other.seconds : std::min(fastest, other.seconds);
      }
      CHECK(estimated.seconds >= fastest);
      if (fastest > 0 && estimated.seconds == fastest) ++bound;
    }
  }
  CHECK(bound > 10);
}

TEST_CASE("estimated parts are powers of two, from a 32nd of the batch") {
  CHECK(SizesOf(Estimate{}.With(nullptr)) == std::set<int64_t>{4, 8, 16, 32, 64, 128});
  // 100 images are 64 + 32 + 4: the last parts are those that end the batch.
  const Estimate hundred = {.step = PartedStep(Phase::kForward, 100)};
  const std::set<int64_t> sizes = SizesOf(hundred.With(nullptr));
  CHECK(sizes.contains(100));
  for (const int64_t size : sizes) {
    CHECK((size == 100 || IsPowerOfTwo(size)));
    CHECK((size * 32 >= 100 || (size & 100) != 0));
  }
  for (const int64_t size : {4, 32, 64}) CHECK(sizes.contains(size));
}

TEST_CASE("an estimated part is not faster for each image than the whole batch") {
  for (const Phase phase : {Phase::kForward, Phase::kBackwardData, Phase::kBackwardParams}) {
    const std::vector<TimedEngine> known = Estimate{.step = PartedStep(phase)}.With(nullptr);
    for (const TimedEngine& timed : known) {
      const double whole = Of(known, timed.engine, kBatch).seconds;
      CHECK(timed.seconds * kBatch >= whole * static_cast<double>(timed.batch) * (1 - 1e-12));
    }
  }
}

TEST_CASE("parts are estimated only where they may save time or workspace") {
  const std::set<int64_t> whole = {kBatch};
  CHECK(SizesOf(Estimate{.divisions = DivisionPolicy::kUndivided}.With(nullptr)) == whole);
  DeviceDescription cpu = DescribedDevice("h200").value();
  cpu.kind = "cpu";
  CHECK(SizesOf(Estimate{.device = cpu}.With(nullptr)) == whole);
  // The fastest engine needs little.
  const Estimate little = {.engines = {{"fast", 8 * kMiB}, {"small", 0}}};
  CHECK(SizesOf(little.With(nullptr)) == whole);
  // The one without workspace is as fast.
  const Estimate equal;
  CHECK(SizesOf(equal.WithRows({{"fast", kBatch, 256 * kMiB, 1e-3},
                                {"medium", kBatch, 64 * kMiB, 1.01e-3},
                                {"small", kBatch, 0, 1.01e-3}})) == whole);
  CHECK(SizesOf(equal.WithRows({{"fast", kBatch, 256 * kMiB, 1e-3},
                                {"medium", kBatch, 64 * kMiB, 1.1e-3},
                                {"small", kBatch, 0, 1.2e-3}}))
            .size() > 1);
  // Only an engine that is far slower than those of usual lists is listed for the whole batch.
  const Estimate slow = {.engines = {{"eng0", 0}}};
  const std::vector<TimedEngine> known = slow.With(nullptr);
  CHECK(Of(known, "eng0", kBatch).seconds > 4 * slow.Model(kBatch));
  CHECK(SizesOf(known).size() > 1);
  const Estimate unstable = {.engines = {{"eng0", 0}, {.id = "other", .deterministic = false}}};
  CHECK(SizesOf(unstable.With(nullptr)).size() > 1);
  // No part of a pass over memory is run alone.
  CHECK(SizesOf(Estimate{.step = AdditionSignature({{kBatch, 64, 56, 56}})}.With(nullptr)) ==
        whole);
}

TEST_CASE("an engine without matrix units is a few times slower where there is little to compute") {
  const StepSignature step = PartedStep();
  const std::vector<Engine> engines = {{.id = "first", .uses_tensor_cores = true}, {.id = "eng0"}};
  ProportionalCatalog catalog(engines, kBatch);
  const DeviceDescription h200 = DescribedDevice("h200").value();
  const auto slower = [&](double flops) {
    const EstimateOptions options = {
        .device = h200, .flops = flops, .divisions = DivisionPolicy::kUndivided};
    const std::vector<TimedEngine> known =
        EstimatedPartsOf(step, engines, options, catalog).value();
    return Of(known, "eng0", kBatch).seconds / Of(known, "first", kBatch).seconds;
  };
  CHECK(slower(1e6) < 5);
  CHECK(slower(Flops(kBatch)) > 10);
}

TEST_CASE("a batch that is too large for all engines runs in parts, if it may") {
  const Estimate large = {.engines = {{"only", 0}}, .largest = kBatch / 4};
  const std::vector<TimedEngine> known = large.With(nullptr);
  CHECK(SizesOf(known) == std::set<int64_t>{4, 8, 16, 32});
  CHECK(FastestDivision(known, kBatch, 1, 0)->parts == std::vector<EngineUse>(4, {"only", 32}));
  ProportionalCatalog catalog(large.engines, large.largest), none({}, 0);
  const StepSignature step = PartedStep();
  CHECK(WholeEngines(step, DivisionPolicy::kAll, catalog).value().empty());
  CHECK(WholeEngines(PartedStep(Phase::kForward, 32), DivisionPolicy::kAll, catalog)->size() == 1);
  CHECK(WholeEngines(step, DivisionPolicy::kUndivided, catalog).status().message() == "too large");
  CHECK(WholeEngines(step, DivisionPolicy::kAll, none).status().message() == "too large");
}

TEST_CASE("a slow kernel for more than 2^31 elements says nothing of parts") {
  const auto measured = [](int64_t batch, double times) {
    Estimate estimate = {.step = PartedStep(Phase::kForward, batch), .engines = {{"only", 0}}};
    return estimate.WithRows({{"only", batch, 0, times * estimate.Model(batch)}});
  };
  constexpr int64_t kLong = 16384;  // times 64 x 56 x 56 are 3.3e9
  const double model = Estimate{}.Model(kLong / 2);
  CHECK(Of(measured(kLong, 17), "only", kLong / 2).seconds == Approx(model));
  CHECK(SizesOf(measured(kLong, 15)) == std::set<int64_t>{kLong});
  CHECK(SizesOf(measured(kLong / 2, 17)) == std::set<int64_t>{kLong / 2});

  // Unless another one is fast.
  Estimate two = {.step = PartedStep(Phase::kForward, kLong),
                  .engines = {{"slow", 0}, {"fast", 0}}};
  const std::vector<TimedEngine> known = two.WithRows(
      {{"slow", kLong, 0, 17 * two.Model(kLong)}, {"fast", kLong, 0, two.Model(kLong)}});
  CHECK(SizesOf(known) == std::set<int64_t>{kLong});
}

TEST_CASE("engines that failed, that give other bits or that are not listed are not estimated") {
  MadeUpTimings failed({});
  failed.failed = {{"fast", kBatch}, {"small", 32}};
  const std::vector<TimedEngine> known = Estimate{}.With(&failed);
  CHECK(Find(known, "fast", kBatch) == nullptr);
  CHECK(Find(known, "medium", kBatch) != nullptr);
  CHECK(Find(known, "small", 32) == nullptr);

  const std::vector<Engine> unstable = {{"unstable", 0, /*deterministic=*/false}, {"small", 0}};
  const std::vector<TimedEngine> rows = {{"unstable", kBatch, 0, 1e-3, /*deterministic=*/false},
                                         {"gone", kBatch, 0, 1e-6}};
  const Estimate strict = {.engines = unstable};
  CHECK(Find(strict.With(nullptr), "unstable", kBatch) == nullptr);
  CHECK(Find(strict.WithRows(rows), "unstable", kBatch) == nullptr);
  CHECK(Find(strict.WithRows(rows), "gone", kBatch) == nullptr);
  const Estimate loose = {.engines = unstable, .deterministic = false};
  CHECK(Find(loose.With(nullptr), "unstable", kBatch) == nullptr);
  CHECK(Of(loose.WithRows(rows), "unstable", kBatch).seconds == 1e-3);
}

TEST_CASE("parts whose gradients are summed cost an addition, measured or by the model") {
  const Estimate backward = {.step = PartedStep(Phase::kBackwardParams)};
  double model = 0;
  for (const OperandSpec& operand : backward.step.operands) {
    if (operand.operand.slot == Slot::kParamGrad)
      model += PredictAdditionSeconds(operand.tensor, backward.device);
  }
  REQUIRE(model > 0);
  const TimedEngine estimated = Of(backward.With(nullptr), "fast", 32);
  CHECK(estimated.addition.workspace_bytes == DivisionScratchBytes(backward.step));
  CHECK(estimated.addition.seconds.value() == Approx(model));

  MadeUpTimings timings({{"fast", 32, 64 * kMiB, 1e-3}});
  timings.addition_seconds = 5e-3;  // of the weight's and of the bias's
  CHECK(Of(backward.With(&timings), "fast", 32).addition.seconds.value() == Approx(2 * 5e-3));
  CHECK(Of(backward.With(&timings), "fast", 64).addition.seconds.value() == Approx(2 * 5e-3));
  timings.addition_seconds.reset();
  CHECK(Of(backward.With(&timings), "fast", 32).addition.seconds.value() == Approx(model));

  CHECK(Of(Estimate{}.With(nullptr), "fast", 32).addition.seconds == 0.0);
}

TEST_CASE("with estimated parts, a division is chosen that fits where the whole batch does not") {
  const std::vector<TimedEngine> known = Estimate{}.WithRows({{"fast", kBatch, 256 * kMiB, 1e-3},
                                                              {"medium", kBatch, 64 * kMiB, 9e-3},
                                                              {"small", kBatch, 0, 9e-3}});
  const std::optional<Configuration> divided =
      FastestDivision(known, kBatch, BatchGranularity(PartedStep()), 130 * kMiB);
  REQUIRE(divided.has_value());
  CHECK(divided->parts == std::vector<EngineUse>{{"fast", 64}, {"fast", 64}});
  CHECK(divided->workspace_bytes == 128 * kMiB);
  CHECK(divided->seconds < 1.1e-3);
  CHECK(divided->source == TimeSource::kInterpolated);
}

}  // namespace
}  // namespace neap

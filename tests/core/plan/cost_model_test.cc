#include "neap/core/plan/cost_model.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "neap/core/base/units.h"
#include "neap/core/graph/graph.h"
#include "neap/core/step/operands.h"
#include "neap/core/step/signature_text.h"
#include "neap/layers/activation.h"
#include "neap/layers/convolution.h"
#include "neap/layers/devices/device_description.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/pooling.h"
#include "neap/layers/softmax_cross_entropy.h"

namespace neap {
namespace {

using doctest::Approx;

struct Row {
  std::string_view name;
  double least, most;
  double coefficients[CostFeatures::kCount];
};
constexpr Row kRows[] = {
#include "neap/core/plan/cost_coefficients.inc"
};
constexpr Row kCpuRows[] = {
#include "neap/core/plan/cpu_cost_coefficients.inc"
};

std::optional<Row> RowOf(const std::string& name, absl::Span<const Row> rows = kRows) {
  for (const Row& row : rows) {
    if (row.name == name) return row;
  }
  return std::nullopt;
}

// The most particular of the rows for a kernel.
std::optional<Row> RowFor(const CostFeatures& features, absl::Span<const Row> rows = kRows) {
  for (const std::string& name : {features.kind, features.group, features.family}) {
    if (const std::optional<Row> row = RowOf(name, rows); row.has_value()) return row;
  }
  return std::nullopt;
}

const DeviceDescription& H200() {
  static const DeviceDescription device = DescribedDevice("h200").value();
  return device;
}

// Two processors with AVX-512, as layers/cpu/cpu_description.h describes them.
const DeviceDescription& Cpu() {
  static const DeviceDescription device = {.name = "AMD EPYC",
                                           .kind = "cpu",
                                           .fp32_flops = 320e9,
                                           .tf32_flops = 320e9,
                                           .half_flops = 320e9,
                                           .memory_bandwidth = 20e9};
  return device;
}

// A convolution of random extents, and a step of it.
struct RandomStep {
  Convolution layer;
  Phase phase;
  TensorSpec input;  // of one image

  StepSignature At(int64_t batch) const {
    const Shape& image = input.shape;
    return SignatureOf(layer, phase,
                       {{{batch, image.c(), image.h(), image.w()}, input.dtype, input.layout}})
        .value();
  }
  double Flops(int64_t batch) const {
    const StepSignature step = At(batch);
    const Operand result = phase == Phase::kForward ? operands::Y() : operands::Dy();
    return 2.0 * static_cast<double>(step.Spec(result).elements()) *
           static_cast<double>(input.shape.c() / layer.groups * layer.kernel.h() *
                               layer.kernel.w());
  }
  double Seconds(int64_t batch, const DeviceDescription& device = H200()) const {
    return PredictSeconds(At(batch), Flops(batch), device);
  }
};

class RandomSteps {
 public:
  RandomStep Next() {
    constexpr int64_t kChannels[] = {3, 16, 24, 32, 64, 96, 128, 192, 256, 512, 1024, 2048};
    constexpr int64_t kImages[] = {7, 8, 14, 28, 32, 56, 112, 224};
    constexpr int64_t kKernels[] = {1, 3, 5, 7};
    constexpr DType kTypes[] = {DType::kFp32, DType::kTf32, DType::kFp16, DType::kBf16};
    RandomStep step;
    const int64_t in = Of(kChannels);
    const int64_t kernel = Of(kKernels), image = Of(kImages);
    const bool is_depthwise = in > 3 && random_() % 6 == 0;
    step.layer = {.out_channels = is_depthwise ? in : Of(kChannels),
                  .kernel = kernel,
                  .stride = 1 + static_cast<int64_t>(random_() % 2),
                  .padding = kernel / 2,
                  .groups = is_depthwise ? in : 1,
                  .bias = random_() % 2 == 0};
    constexpr Phase kPhases[] = {Phase::kForward, Phase::kBackwardData, Phase::kBackwardParams};
    step.phase = kPhases[random_() % 3];
    step.input = {{1, in, image, image},
                  kTypes[random_() % 4],
                  random_() % 2 == 0 ? Layout::kChannelsFirst : Layout::kChannelsLast};
    return step;
  }

 private:
  template <size_t n>
  int64_t Of(const int64_t (&numbers)[n]) {
    return numbers[random_() % n];
  }
  std::mt19937 random_{1};
};

TEST_CASE("the rows are in order of their names, each once, with limits in order") {
  for (const absl::Span<const Row> rows : {absl::Span<const Row>(kRows), {kCpuRows}}) {
    REQUIRE(rows.size() > 100);
    for (size_t i = 0; i < rows.size(); ++i) {
      CAPTURE(rows[i].name);
      if (i > 0) CHECK(rows[i - 1].name < rows[i].name);
      CHECK(rows[i].least < rows[i].most);
      for (const double coefficient : rows[i].coefficients) CHECK(std::isfinite(coefficient));
    }
    for (const char* family : {"pass", "dense forward", "dense backward_data",
                               "dense backward_params", "depthwise forward"})
      CHECK_MESSAGE(RowOf(family, rows).has_value(), family);
  }
}

TEST_CASE("a prediction is the bound times the exponential of the most particular row's product") {
  RandomSteps steps;
  for (int i = 0; i < 300; ++i) {
    const RandomStep step = steps.Next();
    const int64_t batch = int64_t{1} << i % 10;
    const StepSignature signature = step.At(batch);
    CAPTURE(SignatureText(signature));
    CAPTURE(batch);
    for (const DeviceDescription& device : {H200(), Cpu()}) {
      CAPTURE(device.kind);
      const CostFeatures features = FeaturesOf(signature, step.Flops(batch), device);
      const std::optional<Row> row =
          device.kind == "cpu" ? RowFor(features, kCpuRows) : RowFor(features);
      REQUIRE(row.has_value());
      double product = 0;
      for (size_t k = 0; k < CostFeatures::kCount; ++k)
        product += row->coefficients[k] * features.values[k];
      const double limited = std::clamp(product, row->least, row->most);
      CHECK(step.Seconds(batch, device) == Approx(features.bound_seconds * std::exp(limited)));
    }
  }
}

TEST_CASE("predicted time grows with the batch, unless most of it is a launch") {
  // Where a launch is most of the bound, the efficiency may grow faster with the images than it.
  constexpr double kShort = 150e-6;
  RandomSteps steps;
  for (int i = 0; i < 2000; ++i) {
    const RandomStep step = steps.Next();
    CAPTURE(SignatureText(step.At(1)));
    double before = 0;
    for (int64_t batch = 1; batch <= 1024; batch *= 2) {
      CAPTURE(batch);
      const double seconds = step.Seconds(batch);
      CHECK(seconds > 0.75 * before);
      if (before > kShort) CHECK(seconds > before);
      before = seconds;
    }
  }
}

TEST_CASE("no pass over a large tensor is faster than the memory, whatever was measured of it") {
  // Rectified linear units were only measured behind fully connected layers, within the cache.
  const StepSignature relu = SignatureOf(Relu{}, Phase::kForward, {{{256, 64, 112, 112}}}).value();
  const double bytes = 2.0 * 256 * 64 * 112 * 112 * 4;
  CHECK(PredictSeconds(relu, 0, H200()) == Approx((bytes - 60.0 * kMiB) / 4.3e12));
  double before = 0;
  for (int64_t batch = 1; batch <= 4096; batch *= 2) {
    const StepSignature step =
        SignatureOf(Relu{}, Phase::kForward, {{{batch, 64, 28, 28}}}).value();
    const double seconds = PredictSeconds(step, 0, H200());
    CHECK(seconds > before);
    before = seconds;
  }
}

TEST_CASE("a device without a table has the roofline, and the model says what it was fitted to") {
  const StepSignature relu = SignatureOf(Relu{}, Phase::kForward, {{{64, 64, 56, 56}}}).value();
  const double bytes = 2.0 * 64 * 64 * 56 * 56 * 4;
  DeviceDescription rates_only = H200();
  rates_only.gpu.reset();
  CHECK(PredictSeconds(relu, 0, rates_only) == Approx(2e-6 + bytes / 4.3e12));
  CHECK(CostModelOf(H200()) == "fitted to NVIDIA H200");
  CHECK(CostModelOf(rates_only) == "roofline");
  CHECK(CostModelOf(Cpu()) == "fitted to AMD EPYC");
}

TEST_CASE("kernels of a CPU are predicted within a factor of two of their measured times") {
  // Two cores of an AMD EPYC (Zen 5) and oneDNN 2.6.3, measured by scripts/cpu_profiles.sh.
  struct Measured {
    RandomStep step;
    int64_t batch;
    double milliseconds;
  };
  constexpr Phase kForward = Phase::kForward;
  const Convolution around = {.out_channels = 64, .kernel = 3, .padding = 1, .bias = false};
  const Convolution halving = {
      .out_channels = 128, .kernel = 3, .stride = 2, .padding = 1, .bias = false};
  const Convolution wide = {.out_channels = 256, .kernel = 3, .padding = 1, .bias = false};
  const Convolution across = {.out_channels = 96, .kernel = 1, .bias = false};
  const Convolution depthwise = {
      .out_channels = 384, .kernel = 3, .padding = 1, .groups = 384, .bias = false};
  for (const Measured& kernel :
       {Measured{{around, kForward, {{1, 64, 56, 56}}}, 4, 2.162},
        Measured{{halving, kForward, {{1, 64, 56, 56}}}, 4, 1.325},
        Measured{{halving, Phase::kBackwardData, {{1, 64, 56, 56}}}, 4, 1.370},
        Measured{{wide, Phase::kBackwardParams, {{1, 256, 14, 14}}}, 4, 2.292},
        Measured{{across, kForward, {{1, 576, 14, 14}}}, 4, 0.486},
        Measured{{across, Phase::kBackwardParams, {{1, 576, 14, 14}}}, 4, 0.544},
        Measured{{depthwise, kForward, {{1, 384, 14, 14}}}, 4, 0.284},
        Measured{{depthwise, Phase::kBackwardData, {{1, 384, 14, 14}}}, 4, 0.320}}) {
    CAPTURE(SignatureText(kernel.step.At(kernel.batch)));
    const double milliseconds = 1e3 * kernel.step.Seconds(kernel.batch, Cpu());
    CHECK(milliseconds < 2 * kernel.milliseconds);
    CHECK(milliseconds > kernel.milliseconds / 2);
  }
}

TEST_CASE("passes over memory on a CPU, too, which take longer than the memory would") {
  const TensorSpec images = {{4, 256, 28, 28}};
  const StepSignature pool =
      SignatureOf(MaxPool{.kernel = 3, .stride = 1, .padding = 1}, Phase::kForward, {images})
          .value();
  const double flops = 9.0 * 4 * 256 * 28 * 28;
  const double measured = 17.155e-3, roofline = FeaturesOf(pool, flops, Cpu()).bound_seconds;
  CHECK(measured > 20 * roofline);
  CHECK(PredictSeconds(pool, flops, Cpu()) < 2 * measured);
  CHECK(PredictSeconds(pool, flops, Cpu()) > measured / 2);
}

TEST_CASE("coefficients are relative to rates: a device at half of them takes twice as long") {
  DeviceDescription half = H200();
  for (double* rate :
       {&half.fp32_flops, &half.tf32_flops, &half.half_flops, &half.memory_bandwidth})
    *rate /= 2;
  RandomSteps steps;
  for (int i = 0; i < 100; ++i) {
    const RandomStep step = steps.Next();
    const CostFeatures fast = FeaturesOf(step.At(64), step.Flops(64), H200());
    const CostFeatures slow = FeaturesOf(step.At(64), step.Flops(64), half);
    CHECK(slow.values == fast.values);
    const double ratio = (2 * fast.bound_seconds - kLaunchSeconds) / fast.bound_seconds;
    CHECK(PredictSeconds(step.At(64), step.Flops(64), half) == Approx(ratio * step.Seconds(64)));
  }
}

TEST_CASE("a program's step takes the time of its kernel, and of the sums behind it") {
  Graph net({.name = "two", .batch = 8});
  const std::string x =
      net.Add("conv", Convolution{.out_channels = 8, .kernel = 3}, {net.Input({4, 8, 8})});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 3}, {x}), SoftmaxCrossEntropy{});
  for (const int64_t sub_batches : {1, 2}) {
    const Program program = BuildProgram(net, {.sub_batches = sub_batches}).value();
    for (const Step& step : program.steps) {
      CAPTURE(program.StepName(step));
      double sums = 0;
      for (const Use& use : step.accumulates) {
        if (use.operand.slot == Slot::kParamGrad && KernelOverwrites(step, use))
          sums += PredictAdditionSeconds(program.tensor(use.tensor).spec, H200());
      }
      const double kernel = PredictSeconds(program.Signature(step), step.flops, H200());
      CHECK(kernel > 0);
      CHECK(PredictSeconds(program, step, H200()) == Approx(kernel + sums));
    }
  }
}

TEST_CASE("transfers take the device's rates") {
  const TimelineCosts costs = TransferCosts(H200());
  CHECK(costs.compute_seconds.empty());
  CHECK(costs.d2h_bytes_per_second == 55.5e9);
  CHECK(costs.h2d_bytes_per_second == 55.5e9);
  CHECK(costs.peer_bytes_per_second == 450e9);
  CHECK(costs.device_bytes_per_second == 4.3e12);
  CHECK(costs.transfer_latency_seconds == 5e-6);
  CHECK(costs.slowdown_by_offloads == 0.02);
  CHECK(costs.slowdown_by_prefetches == 0.06);
}

}  // namespace
}  // namespace neap

// Training with convolutions that compute their ReLU or hand over their bias, as on a GPU, but with
// the kernels of the CPU.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

#include "neap/core/program/passes.h"
#include "neap/layers/convolution.h"
#include "neap/layers/cpu/cpu_device.h"
#include "neap/layers/fusion/fused_convolution.h"
#include "neap/layers/fusion/rules.h"
#include "neap/memory/create_session.h"
#include "tests/core/run/half_training.h"
#include "tests/core/run/random_training.h"
#include "tests/forwarding_device.h"
#include "tests/random_graph.h"

namespace neap {
namespace {

using testing::CheckPlans;
using testing::TrainedState;
using testing::TrainRandom;

// A CPU for which networks are rewritten as for a GPU.
DescribedAs GpuByName(Device& cpu) {
  DeviceDescription description = cpu.description();
  description.rules = GpuRules();
  return {cpu, std::move(description)};
}

// The network whose convolutions have no biases, or all have one, with or without fusion.
Graph WithBias(const Graph& graph, bool bias, bool fusion) {
  GraphOptions options = graph.options();
  options.fusion = fusion;
  Graph changed(options);
  for (GraphLayer layer : graph.layers()) {
    if (const auto* const convolution = layer.layer.As<Convolution>()) {
      Convolution other = *convolution;
      other.bias = bias;
      layer.layer = other;
    }
    changed.Add(layer);
  }
  return changed;
}

int CountFused(const Graph& graph, const Device& device) {
  const Program program = Lower(graph, {}, device.description()).value();
  return static_cast<int>(std::count_if(
      program.layers.begin(), program.layers.end(),
      [](const ProgramLayer& layer) { return layer.layer.As<FusedConvolution>() != nullptr; }));
}

// The largest difference between two tensors, relative to their largest value if that is above 1.
double Difference(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double largest = 1, difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(b[i])));
    difference = std::max(difference, std::abs(static_cast<double>(a[i]) - b[i]));
  }
  return difference / largest;
}

const PlannerOptions kPlain = {.policy = "keep-all", .in_place = false, .strict = true};

TEST_CASE("random networks with fused convolutions train to the bits without fusion and biases") {
  const std::unique_ptr<CpuDevice> cpu = CpuDevice::Open().value();
  DescribedAs gpu = GpuByName(*cpu);
  constexpr DType kTypes[] = {DType::kFp32, DType::kBf16, DType::kFp16};
  int fused = 0;
  const uint32_t seeds = testing::RandomSeeds(20);
  for (uint32_t seed = 0; seed < seeds; ++seed) {
    CAPTURE(seed);
    const Graph random = testing::RandomGraph(
        seed, {.dtype = kTypes[seed % 3],
               .layout = seed / 3 % 2 == 0 ? Layout::kChannelsFirst : Layout::kChannelsLast});
    const Graph graph = WithBias(random, /*bias=*/false, /*fusion=*/true);
    fused += CountFused(graph, gpu);
    const TrainedState want = TrainRandom(WithBias(random, false, false), gpu, kPlain, nullptr);
    CheckPlans(graph, gpu, want);
  }
  CHECK(fused >= static_cast<int>(seeds) / 3);
}

// A fused convolution sums the gradient of its bias in another order, and one that hands its bias
// over rounds the sums before it is added.
TEST_CASE("with biases, fused convolutions train to nearly the same, and the same in every plan") {
  const std::unique_ptr<CpuDevice> cpu = CpuDevice::Open().value();
  DescribedAs gpu = GpuByName(*cpu);
  int fused = 0;
  const uint32_t seeds = testing::RandomSeeds(20);
  for (uint32_t seed = 0; seed < seeds; ++seed) {
    CAPTURE(seed);
    const Graph random = testing::RandomGraph(
        seed, {.layout = seed % 2 == 0 ? Layout::kChannelsFirst : Layout::kChannelsLast});
    const Graph graph = WithBias(random, /*bias=*/true, /*fusion=*/true);
    fused += CountFused(graph, gpu);
    const TrainedState apart = TrainRandom(WithBias(random, true, false), gpu, kPlain, nullptr);
    const TrainedState together = TrainRandom(graph, gpu, kPlain, nullptr);
    REQUIRE(together.size() == apart.size());
    for (const auto& named : apart) {
      CAPTURE(named.first);
      CHECK(Difference(together.at(named.first), named.second) <= 1e-4);
    }
    CheckPlans(graph, gpu, together);
  }
  CHECK(fused >= static_cast<int>(seeds) / 3);
}

TEST_CASE("16-bit training with fused convolutions has the same bits under every plan") {
  const std::unique_ptr<CpuDevice> cpu = CpuDevice::Open().value();
  DescribedAs gpu = GpuByName(*cpu);
  testing::CheckSameBitsUnderEveryPlan(gpu, /*reference_fusion=*/true);
  testing::CheckFusionIsClose(gpu);
}

}  // namespace
}  // namespace neap

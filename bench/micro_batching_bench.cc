// Planning time of one convolution's micro-batches, for one limit (u-cuDNN's WR) and for the whole
// front.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/base/units.h"
#include "neap/layers/conv/micro_batching.h"

namespace neap {
namespace {

constexpr uint32_t kSeed = 1;
constexpr int kEngines = 20;

// Engines like those of real convolutions: time is a launch plus whole tiles of images, with a
// percent of noise; workspace grows with the images, and faster engines need more of it.
std::vector<TimedEngine> ConvolutionEngines(const std::vector<int64_t>& sizes) {
  std::mt19937 random(kSeed);
  std::uniform_real_distribution<double> scatter(0.99, 1.01);
  std::vector<TimedEngine> engines;
  for (const int64_t size : sizes) {
    for (int i = 0; i < kEngines; ++i) {
      const int64_t tile = int64_t{1} << (i % 6);
      const auto images = static_cast<double>(RoundUp(size, tile));
      engines.push_back({absl::StrCat("engine", i), size, i * (kMiB + size * 64 * kKiB),
                         (5e-6 + images * 4e-6 / (1 + 0.2 * i)) * scatter(random)});
    }
  }
  return engines;
}

// Random engines without a convolution's regularity, for as many changes of the fastest division as
// possible.
std::vector<TimedEngine> RandomEngines(const std::vector<int64_t>& sizes) {
  std::mt19937 random(kSeed);
  std::uniform_real_distribution<double> seconds(1e-5, 1e-3);
  std::vector<TimedEngine> engines;
  for (const int64_t size : sizes) {
    for (int i = 0; i < kEngines; ++i) {
      const double images = static_cast<double>(size);
      engines.push_back({absl::StrCat("engine", i), size,
                         static_cast<int64_t>(random() % static_cast<uint64_t>(kGiB)),
                         images * seconds(random)});
    }
  }
  return engines;
}

std::vector<TimedEngine> Engines(const benchmark::State& state) {
  const auto policy = static_cast<DivisionPolicy>(state.range(0));
  const std::vector<int64_t> sizes = MicroBatchSizes(policy, state.range(1), 1);
  return state.range(2) == 0 ? ConvolutionEngines(sizes) : RandomEngines(sizes);
}

void OneLimit(benchmark::State& state) {
  const std::vector<TimedEngine> engines = Engines(state);
  for (auto _ : state)
    benchmark::DoNotOptimize(FastestDivision(engines, state.range(1), 1, 64 * kMiB));
}

void Front(benchmark::State& state) {
  const std::vector<TimedEngine> engines = Engines(state);
  size_t configurations = 0;
  for (auto _ : state)
    configurations = DesirableConfigurations(engines, state.range(1), 1, 8 * kGiB).size();
  state.counters["configurations"] = static_cast<double>(configurations);
}

void Sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"policy", "batch", "random"})
      ->ArgsProduct({{static_cast<int64_t>(DivisionPolicy::kPowerOfTwo),
                      static_cast<int64_t>(DivisionPolicy::kAll)},
                     {256, 1024},
                     {0, 1}})
      ->Unit(benchmark::kMillisecond);
}
BENCHMARK(OneLimit)->Apply(Sizes);
BENCHMARK(Front)->Apply(Sizes);

}  // namespace
}  // namespace neap

// One workspace divided among all convolutions of a network (u-cuDNN's WD).
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "neap/core/base/units.h"
#include "neap/layers/conv/workspace_division.h"

namespace neap {
namespace {

constexpr uint32_t kSeed = 1;

// A front of 5 to 20 configurations: time falls by random steps, workspace rises by random factors.
std::vector<Configuration> RandomFront(std::mt19937& random) {
  std::uniform_real_distribution<double> factor(1.1, 2.5);
  const size_t count = 5 + random() % 16;
  double seconds = 1e-4 * factor(random) * factor(random);
  double bytes = 1e5 * factor(random) * factor(random);
  std::vector<Configuration> front = {{.workspace_bytes = 0, .seconds = seconds}};
  while (front.size() < count) {
    seconds /= 1 + (factor(random) - 1) / static_cast<double>(count);
    bytes *= 1 + factor(random) / 4;
    front.push_back({.workspace_bytes = static_cast<int64_t>(bytes), .seconds = seconds});
  }
  return front;
}

// Layers repeat: there are `kernels` in all, and `distinct` different ones (ResNet-152 and
// DenseNet-201 have about 450 and 600 convolution steps, of which some 70 and 300 are different).
void Divide(benchmark::State& state) {
  std::mt19937 random(kSeed);
  std::vector<std::vector<Configuration>> fronts;
  for (int64_t k = 0; k < state.range(1); ++k) fronts.push_back(RandomFront(random));
  while (fronts.size() < static_cast<size_t>(state.range(0)))
    fronts.push_back(fronts[random() % static_cast<size_t>(state.range(1))]);
  WorkspaceDivisionGoal goal;
  if (state.range(3) != 0) goal.gap = 0;
  double worst_gap = 0;
  int64_t optimal = 0;
  for (auto _ : state) {
    const auto division = DivideWorkspace(fronts, state.range(2) * kMiB, goal);
    if (!division.ok()) return state.SkipWithError("it does not fit");
    worst_gap = std::max(worst_gap, division->gap());
    optimal = division->optimal ? 1 : 0;
  }
  state.counters["gap"] = worst_gap;
  state.counters["optimal"] = static_cast<double>(optimal);
}
BENCHMARK(Divide)
    ->ArgNames({"kernels", "distinct", "total_mib", "exact"})
    ->ArgsProduct({{15}, {15}, {16, 64}, {0, 1}})
    ->ArgsProduct({{450}, {60, 450}, {64, 256, 1024, 4096}, {0, 1}})
    ->ArgsProduct({{600}, {300, 600}, {64, 256, 1024, 4096}, {0, 1}})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace neap

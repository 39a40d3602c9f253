// Offline placement: its time, and how far the result is above the lower bound.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <random>
#include <vector>

#include "neap/core/base/units.h"
#include "neap/core/plan/plan.h"
#include "neap/memory/placement/placement.h"
#include "tests/memory/placement/separate_stays.h"

namespace neap {
namespace {

constexpr uint32_t kSeed = 1;

// Fully random lifetimes, without the nesting of training's.
std::vector<PlacementBlock> RandomBlocks(size_t count, int steps) {
  std::mt19937 random(kSeed);
  std::vector<PlacementBlock> blocks;
  for (size_t i = 0; i < count; ++i) {
    const int begin = static_cast<int>(random() % static_cast<uint32_t>(steps));
    const int length = 1 + static_cast<int>(random() % static_cast<uint32_t>(steps - begin));
    blocks.push_back(
        {kBlockBytes * (1 + static_cast<int64_t>(random() % 1000)), begin, begin + length});
  }
  return blocks;
}

// Placement may stop `percent` above the lower bound; 0 asks for the tightest result.
void Place(benchmark::State& state, const std::vector<PlacementBlock>& blocks, int64_t percent) {
  const int64_t bound = PlacementLowerBound(blocks);
  const int64_t target = percent == 0 ? 0 : bound + bound * percent / 100;
  PlacementResult result;
  for (auto _ : state) result = PlaceOffline(blocks, {.target_bytes = target});
  state.counters["gap_percent"] =
      100.0 * static_cast<double>(result.extent_bytes - bound) / static_cast<double>(bound);
}

void RandomPlacement(benchmark::State& state) {
  Place(state, RandomBlocks(static_cast<size_t>(state.range(0)), 1000), state.range(1));
}
BENCHMARK(RandomPlacement)
    ->ArgNames({"blocks", "target_percent"})
    ->ArgsProduct({{100, 1000, 5000, 20000}, {0, 5}})
    ->Unit(benchmark::kMillisecond);

void SeparateStaysPlacement(benchmark::State& state) {
  std::mt19937 random(kSeed);
  Place(state, testing::SeparateStays(random, static_cast<int>(state.range(0)), 1000),
        state.range(1));
}
BENCHMARK(SeparateStaysPlacement)
    ->ArgNames({"layers", "target_percent"})
    ->ArgsProduct({{100, 1000, 5000}, {0, 5}})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace neap

// Offline placement: time, and how far above the lower bound it ends.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <random>
#include <vector>

#include "neap/core/plan.h"
#include "neap/core/units.h"
#include "neap/memory/placement.h"

namespace neap {
namespace {

constexpr uint32_t kSeed = 1;

// Lifetimes as random as can be: nothing of training's nesting helps.
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

void RandomPlacement(benchmark::State& state) {
  const std::vector<PlacementBlock> blocks =
      RandomBlocks(static_cast<size_t>(state.range(0)), 1000);
  PlacementResult result;
  for (auto _ : state) result = PlaceOffline(blocks);
  const int64_t bound = PlacementLowerBound(blocks);
  state.counters["gap_percent"] =
      100.0 * static_cast<double>(result.extent_bytes - bound) / static_cast<double>(bound);
}
BENCHMARK(RandomPlacement)
    ->Arg(100)
    ->Arg(1000)
    ->Arg(5000)
    ->Arg(20000)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace neap

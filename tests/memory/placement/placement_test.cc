#include "neap/memory/placement/placement.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "neap/core/plan/plan.h"
#include "neap/core/program/program.h"
#include "neap/layers/catalog/default_catalog.h"
#include "neap/layers/devices/device_description.h"
#include "neap/memory/placement/placement_search.h"
#include "neap/memory/planner.h"
#include "neap/nets/residual/resnet.h"
#include "tests/memory/placement/separate_stays.h"
#include "tests/random_graph.h"

namespace neap {
namespace {

using Blocks = std::vector<PlacementBlock>;

// Checks that the placement is one, and returns its extent.
int64_t Checked(const Blocks& blocks, const PlacementResult& result) {
  REQUIRE(result.offsets.size() == blocks.size());
  int64_t extent = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].begin == blocks[i].end) continue;
    REQUIRE(result.offsets[i] >= 0);
    extent = std::max(extent, result.offsets[i] + blocks[i].bytes);
    for (size_t j = 0; j < i; ++j) {
      const bool same_time = blocks[i].begin < blocks[j].end && blocks[j].begin < blocks[i].end;
      const bool same_bytes = result.offsets[i] < result.offsets[j] + blocks[j].bytes &&
                              result.offsets[j] < result.offsets[i] + blocks[i].bytes;
      REQUIRE(!(same_time && same_bytes));
    }
  }
  REQUIRE(extent == result.extent_bytes);
  REQUIRE(extent >= PlacementLowerBound(blocks));
  return extent;
}
int64_t Extent(const Blocks& blocks) { return Checked(blocks, PlaceOffline(blocks)); }

constexpr int64_t kUnit = kBlockBytes;

TEST_CASE("nothing needs nothing, one block its size") {
  CHECK(Extent({}) == 0);
  CHECK(Extent({{3 * kUnit, 0, 5}}) == 3 * kUnit);
  CHECK(Extent({{3 * kUnit, 2, 2}}) == 0);
  CHECK(PlacementLowerBound({}) == 0);
}

TEST_CASE("blocks that follow each other share bytes, those that meet do not") {
  // 3 | a a . .        4 |   . b b
  //   | a a b b          | a a b b
  CHECK(Extent({{3 * kUnit, 0, 2}, {2 * kUnit, 2, 4}}) == 3 * kUnit);
  CHECK(Extent({{3 * kUnit, 0, 3}, {2 * kUnit, 2, 4}}) == 5 * kUnit);
}

TEST_CASE("the drawing of placement.h: what dies early goes on top") {
  // 2 |   d d
  // 1 | a d d
  // 0 | b b b
  CHECK(Extent({{kUnit, 0, 1}, {kUnit, 0, 3}, {2 * kUnit, 1, 3}}) == 3 * kUnit);
}

TEST_CASE("online, blocks get what a heap has left when they come") {
  //   first fit           exact fit: e takes the hole of its size
  // 4 | d d d           4 | d d d
  // 3 | c . .           3 | c e e
  // 2 | b b b           2 | b b b
  // 1 | a . .           1 | a . .
  // 0 | a e e           0 | a . .
  const Blocks blocks = {
      {2 * kUnit, 0, 1}, {kUnit, 0, 3}, {kUnit, 0, 1}, {kUnit, 0, 3}, {kUnit, 1, 3}};
  const PlacementResult first = PlaceOnline(blocks, Fit::kFirstFit);
  CHECK(first.offsets == std::vector<int64_t>{0, 2 * kUnit, 3 * kUnit, 4 * kUnit, 0});
  const PlacementResult exact = PlaceOnline(blocks, Fit::kExactFitFirstFit);
  CHECK(exact.offsets == std::vector<int64_t>{0, 2 * kUnit, 3 * kUnit, 4 * kUnit, 3 * kUnit});
  CHECK(Checked(blocks, first) == 5 * kUnit);
  CHECK(Checked(blocks, exact) == 5 * kUnit);
}

TEST_CASE("the lower bound is the busiest step") {
  const Blocks blocks = {{4 * kUnit, 0, 2}, {5 * kUnit, 1, 3}, {6 * kUnit, 2, 4}};
  CHECK(PlacementLowerBound(blocks) == 11 * kUnit);
}

Blocks RandomBlocks(std::mt19937& random, size_t count, int steps, int64_t largest) {
  Blocks blocks;
  for (size_t i = 0; i < count; ++i) {
    const int begin = static_cast<int>(random() % static_cast<uint32_t>(steps));
    const int end = begin + 1 + static_cast<int>(random() % static_cast<uint32_t>(steps - begin));
    blocks.push_back({kUnit * (1 + static_cast<int64_t>(random() % static_cast<uint64_t>(largest))),
                      begin, end});
  }
  return blocks;
}

// Places the blocks one after another, each as low as it goes, by trying until nothing is in the
// way.
PlacementResult PlaceNaively(const Blocks& blocks, const std::vector<size_t>& order) {
  PlacementResult result = {.offsets = std::vector<int64_t>(blocks.size(), 0)};
  for (size_t at = 0; at < order.size(); ++at) {
    const PlacementBlock& block = blocks[order[at]];
    int64_t& offset = result.offsets[order[at]];
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t k = 0; k < at; ++k) {
        const PlacementBlock& other = blocks[order[k]];
        const int64_t low = result.offsets[order[k]];
        const bool same_time = block.begin < other.end && other.begin < block.end;
        if (!same_time || offset >= low + other.bytes || low >= offset + block.bytes) continue;
        offset = low + other.bytes;
        moved = true;
      }
    }
    result.extent_bytes = std::max(result.extent_bytes, offset + block.bytes);
  }
  return result;
}

// Placed from the bottom up, each as low as it goes, the best placement is no worse: one of all
// orders gives it.
int64_t Optimum(const Blocks& blocks) {
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  int64_t best = INT64_MAX;
  do {
    best = std::min(best, PlaceNaively(blocks, order).extent_bytes);
  } while (std::next_permutation(order.begin(), order.end()));
  return best;
}

TEST_CASE("tiny instances are placed as well as can be") {
  MESSAGE("seed 1");
  std::mt19937 random(1);
  for (int i = 0; i < 300; ++i) {
    CAPTURE(i);
    const Blocks blocks = RandomBlocks(random, 2 + random() % 6, 8, 6);
    CHECK(Extent(blocks) == Optimum(blocks));
  }
}

TEST_CASE("random instances of all sizes are placed without overlap, the same every time") {
  MESSAGE("seed 2");
  std::mt19937 random(2);
  for (const size_t count : {10, 50, 200, 800}) {
    const Blocks blocks = RandomBlocks(random, count, 100, 200);
    const PlacementResult result = PlaceOffline(blocks);
    Checked(blocks, result);
    CHECK(PlaceOffline(blocks).offsets == result.offsets);
  }
}

TEST_CASE("a target stops the search once it is met, and one out of reach counts as none") {
  MESSAGE("seed 4");
  std::mt19937 random(4);
  for (int i = 0; i < 3; ++i) {
    CAPTURE(i);
    const Blocks blocks = RandomBlocks(random, 200, 100, 200);
    const int64_t bound = PlacementLowerBound(blocks);
    const PlacementResult tight = PlaceOffline(blocks);
    CHECK(PlaceOffline(blocks, {.target_bytes = bound - 1}).offsets == tight.offsets);
    const int64_t roomy = bound * 5 / 4;
    CHECK(Checked(blocks, PlaceOffline(blocks, {.target_bytes = roomy})) <= roomy);
    const int64_t all =
        std::accumulate(blocks.begin(), blocks.end(), int64_t{0},
                        [](int64_t sum, const PlacementBlock& block) { return sum + block.bytes; });
    const PlacementResult first = PlaceOffline(blocks, {.target_bytes = all});
    CHECK(Checked(blocks, first) >= tight.extent_bytes);
    CHECK(PlaceOffline(blocks, {.target_bytes = first.extent_bytes}).offsets == first.offsets);
  }
}

TEST_CASE("a limit only asks whether the extent is at most that") {
  MESSAGE("seed 6");
  std::mt19937 random(6);
  for (const size_t count : {4, 20, 60}) {
    for (int i = 0; i < 5; ++i) {
      const Blocks blocks = RandomBlocks(random, count, 40, 100);
      const int64_t extent = PlaceOffline(blocks).extent_bytes;
      const int64_t bound = PlacementLowerBound(blocks);
      for (const int64_t limit :
           {bound - 1, bound, extent - 1, extent, extent + kUnit, bound * 5 / 4}) {
        CAPTURE(count);
        CAPTURE(limit);
        const int64_t placed = Checked(blocks, PlaceOffline(blocks, {.limit_bytes = limit}));
        CHECK((placed <= limit) == (extent <= limit));
      }
    }
  }
}

TEST_CASE("tensors with separate stays over thousands of steps are placed within 1%") {
  MESSAGE("seed 5");
  std::mt19937 random(5);
  for (const int layers : {100, 500, 2000}) {
    CAPTURE(layers);
    const Blocks blocks = testing::SeparateStays(random, layers, 200);
    const int64_t bound = PlacementLowerBound(blocks);
    CHECK(Extent(blocks) <= bound + bound / 100);
  }
}

TEST_CASE("blocks outside the core never stick out, in whatever order the core was placed") {
  MESSAGE("seed 3");
  std::mt19937 random(3);
  for (int i = 0; i < 50; ++i) {
    CAPTURE(i);
    Blocks blocks = RandomBlocks(random, 40, 30, 200);
    for (size_t k = 0; k < 30; ++k)
      blocks.push_back({kUnit, static_cast<int>(k), static_cast<int>(k + 1)});
    const int64_t target = PlacementLowerBound(blocks) * 5 / 4;
    PlacementCore parts = SplitPlacement(blocks, target);
    CHECK(parts.core.size() + parts.others.size() == blocks.size());
    CHECK(!parts.others.empty());
    for (int attempt = 0; attempt < 20; ++attempt) {
      std::shuffle(parts.core.begin(), parts.core.end(), random);
      const int64_t core_extent = PlaceNaively(blocks, parts.core).extent_bytes;
      std::vector<size_t> all = parts.core;
      all.insert(all.end(), parts.others.begin(), parts.others.end());
      CHECK(PlaceNaively(blocks, all).extent_bytes <= std::max(core_extent, target));
    }
  }
}

double GapPercent(const Program& program, const std::string& policy, bool in_place) {
  DefaultCatalog catalog;
  const PlanResult result =
      MakePlan(program,
               {.policy = policy, .placement = PlacementMethod::kOffline, .in_place = in_place},
               DescribedDevice("h200").value(), catalog)
          .value();
  const int64_t placed = result.plan.peak_bytes - IncomingBytes(result.plan);
  CHECK(placed >= result.stats.placement_lower_bound);
  const double bound = static_cast<double>(result.stats.placement_lower_bound);
  return 100.0 * (static_cast<double>(placed) - bound) / bound;
}

TEST_CASE("ResNet-50 is placed within 1% of the lower bound") {
  const Program program = BuildProgram(nets::ResNet({.batch = 128}), {}).value();
  for (const bool in_place : {true, false}) CHECK(GapPercent(program, "liveness", in_place) <= 1.0);
}

void CheckInceptionSized(uint32_t first_seed, uint32_t last_seed) {
  for (uint32_t seed = first_seed; seed <= last_seed; ++seed) {
    CAPTURE(seed);
    const Graph graph = testing::RandomGraph(seed, {.batch = 32,
                                                    .image = 64,
                                                    .channels = 16,
                                                    .max_channels = 64,
                                                    .classes = 100,
                                                    .min_blocks = 60,
                                                    .max_blocks = 60});
    const Program program = BuildProgram(graph, {}).value();
    CHECK(program.layers.size() >= 400);
    for (const bool in_place : {true, false})
      CHECK(GapPercent(program, "liveness", in_place) <= 1.0);
  }
}

TEST_CASE(
    "networks with as many layers and branches as Inception are placed within 1% of the lower "
    "bound") {
  SUBCASE("those that it was tuned on") {
    CheckInceptionSized(1, 20);
    CheckInceptionSized(101, 112);
  }
  SUBCASE("others") { CheckInceptionSized(661, 710); }
}

TEST_CASE("random programs are placed within 1% of the lower bound") {
  for (uint32_t seed = 1; seed <= 250; ++seed) {
    CAPTURE(seed);
    const Program program = BuildProgram(testing::RandomGraph(seed), {}).value();
    for (const bool in_place : {true, false})
      CHECK(GapPercent(program, "liveness", in_place) <= 1.0);
  }
}

TEST_CASE("larger random programs are placed within 1% of the lower bound") {
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    const Graph graph = testing::RandomGraph(
        seed, {.batch = 16, .image = 32, .max_channels = 32, .min_blocks = 10, .max_blocks = 30});
    const Program program = BuildProgram(graph, {}).value();
    for (const bool in_place : {true, false})
      CHECK(GapPercent(program, "liveness", in_place) <= 1.0);
  }
}

}  // namespace
}  // namespace neap

#include "neap/memory/placement/ejection_search.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "neap/core/plan/plan.h"

namespace neap {
namespace {

using Blocks = std::vector<PlacementBlock>;

constexpr int64_t kK = kBlockBytes;
constexpr int64_t kPlenty = 100'000;

bool BlocksOverlap(const Blocks& blocks, const std::vector<int64_t>& offsets, size_t i, size_t j) {
  return blocks[i].begin < blocks[j].end && blocks[j].begin < blocks[i].end &&
         offsets[i] < offsets[j] + blocks[j].bytes && offsets[j] < offsets[i] + blocks[i].bytes;
}

// The drawing of placement_ejection.h: d, b, and c, which does not fit above b.
const Blocks kDrawn = {{kK, 0, 1}, {kK, 0, 2}, {2 * kK, 1, 3}};
const std::vector<int64_t> kDrawnOffsets = {0, kK, 2 * kK};

TEST_CASE("a block without a hole pushes out another, which is placed again") {
  std::vector<int64_t> offsets = kDrawnOffsets;
  EjectionSearch search(kDrawn, {0, 1, 2});
  REQUIRE(search.Fit(3 * kK, kPlenty, offsets));
  for (size_t i = 0; i < kDrawn.size(); ++i) {
    CHECK(offsets[i] >= 0);
    CHECK(offsets[i] + kDrawn[i].bytes <= 3 * kK);
    for (size_t j = 0; j < i; ++j) CHECK(!BlocksOverlap(kDrawn, offsets, i, j));
  }
  CHECK(search.comparisons() > 0);
}

TEST_CASE("what fits already stays where it is") {
  std::vector<int64_t> offsets = kDrawnOffsets;
  EjectionSearch search(kDrawn, {0, 1, 2});
  REQUIRE(search.Fit(4 * kK, kPlenty, offsets));
  CHECK(offsets == kDrawnOffsets);
}

TEST_CASE("a limit that cannot be kept is given up, and nothing has changed") {
  std::vector<int64_t> offsets = kDrawnOffsets;
  EjectionSearch search(kDrawn, {0, 1, 2});
  CHECK(!search.Fit(2 * kK, kPlenty, offsets));  // step 1 needs three blocks
  CHECK(!search.Fit(kK, kPlenty, offsets));      // c alone needs two
  CHECK(offsets == kDrawnOffsets);
}

TEST_CASE("blocks left out of account are neither moved nor in the way") {
  std::vector<int64_t> offsets = kDrawnOffsets;
  EjectionSearch search(kDrawn, {0, 2});
  REQUIRE(search.Fit(2 * kK, kPlenty, offsets));
  CHECK(offsets == std::vector<int64_t>{0, kK, 0});
}

}  // namespace
}  // namespace neap

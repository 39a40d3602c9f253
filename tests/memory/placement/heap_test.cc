#include "neap/memory/placement/heap.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "neap/core/base/units.h"

namespace neap {
namespace {

constexpr int64_t kHeapBlock = kBlockBytes;

// One character per block: '.' empty, otherwise the allocation that has it, in order of address:
// 'a', 'b', ...
std::string Drawing(const Heap& heap) {
  std::string text(static_cast<size_t>(heap.capacity_bytes() / kHeapBlock), '.');
  char letter = 'a';
  for (const Region& region : heap.Allocated()) {
    for (int64_t at = region.offset / kHeapBlock; at < region.end() / kHeapBlock; ++at)
      text[static_cast<size_t>(at)] = letter;
    ++letter;
  }
  return text;
}

void Fill(Heap& heap, const std::vector<int64_t>& blocks) {
  for (size_t i = 0; i < blocks.size(); ++i) {
    REQUIRE(heap.Allocate(static_cast<AllocationId>(i), blocks[i] * kHeapBlock).ok());
  }
}

TEST_CASE("requests are rounded up to whole blocks, one after the other from the bottom") {
  Heap heap(8 * kHeapBlock + 1000);
  CHECK(heap.capacity_bytes() == 8 * kHeapBlock);
  CHECK(*heap.Allocate(1, 1) == Region{0, kHeapBlock});
  CHECK(*heap.Allocate(2, kHeapBlock) == Region{kHeapBlock, kHeapBlock});
  CHECK(*heap.Allocate(3, kHeapBlock + 1) == Region{2 * kHeapBlock, 2 * kHeapBlock});
  CHECK(Drawing(heap) == "abcc....");
  CHECK(heap.used_bytes() == 4 * kHeapBlock);
  CHECK(heap.LargestFreeBytes() == 4 * kHeapBlock);
}

TEST_CASE("freeing the middle block merges both neighbours") {
  Heap heap(10 * kHeapBlock);
  Fill(heap, {2, 2, 2, 4});
  CHECK(Drawing(heap) == "aabbccdddd");
  REQUIRE(heap.Free(0).ok());
  REQUIRE(heap.Free(2).ok());
  CHECK(Drawing(heap) == "..aa..bbbb");
  CHECK(heap.LargestFreeBytes() == 2 * kHeapBlock);
  REQUIRE(heap.Free(1).ok());
  CHECK(Drawing(heap) == "......aaaa");
  CHECK(heap.LargestFreeBytes() == 6 * kHeapBlock);
  CHECK(*heap.Allocate(9, 6 * kHeapBlock) == Region{0, 6 * kHeapBlock});
}

TEST_CASE("first fit takes the first hole, exact fit the one of the right size") {
  for (const Fit fit : {Fit::kFirstFit, Fit::kExactFitFirstFit}) {
    Heap heap(12 * kHeapBlock, fit);
    Fill(heap, {3, 1, 2, 1});
    REQUIRE(heap.Free(0).ok());
    REQUIRE(heap.Free(2).ok());
    CHECK(Drawing(heap) == "...a..b.....");
    REQUIRE(heap.Allocate(9, 2 * kHeapBlock).ok());
    CHECK(Drawing(heap) == (fit == Fit::kFirstFit ? "aa.b..c....." : "...abbc....."));
  }
}

TEST_CASE("the hole at the end is no exact fit, so that the arena's size changes nothing") {
  for (const int64_t capacity : {7, 8, 100}) {
    Heap heap(capacity * kHeapBlock, Fit::kExactFitFirstFit);
    Fill(heap, {3, 2});
    REQUIRE(heap.Free(0).ok());
    CHECK(heap.Allocate(9, 2 * kHeapBlock)->offset ==
          0);  // where 7 blocks leave exactly 2 at the end, too
  }
}

TEST_CASE("a given place is had if all of it is empty") {
  Heap heap(8 * kHeapBlock);
  CHECK(*heap.AllocateAt(1, 2 * kHeapBlock, 2 * kHeapBlock) ==
        Region{2 * kHeapBlock, 2 * kHeapBlock});
  CHECK(Drawing(heap) == "..aa....");
  CHECK(heap.AllocateAt(2, kHeapBlock, 2 * kHeapBlock).status().code() ==
        absl::StatusCode::kResourceExhausted);
  CHECK(heap.AllocateAt(2, 3 * kHeapBlock, kHeapBlock).status().code() ==
        absl::StatusCode::kResourceExhausted);
  CHECK(heap.AllocateAt(2, 7 * kHeapBlock, 2 * kHeapBlock).status().code() ==
        absl::StatusCode::kResourceExhausted);
  CHECK(heap.AllocateAt(2, 100 * kHeapBlock, 1).status().code() ==
        absl::StatusCode::kResourceExhausted);
  CHECK(heap.AllocateAt(2, 1, 1).status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(heap.AllocateAt(2, -kHeapBlock, 1).status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(heap.AllocateAt(2, 0, 2 * kHeapBlock).ok());
  CHECK(heap.AllocateAt(3, 6 * kHeapBlock, 2 * kHeapBlock).ok());
  CHECK(Drawing(heap) == "aabb..cc");
  CHECK(*heap.Allocate(4, 2 * kHeapBlock) == Region{4 * kHeapBlock, 2 * kHeapBlock});
}

TEST_CASE("an arena as large as numbers go works, a request for all of them does not overflow") {
  Heap heap(std::numeric_limits<int64_t>::max());
  CHECK(heap.Allocate(1, 100).ok());
  CHECK(heap.Allocate(2, std::numeric_limits<int64_t>::max()).status().code() ==
        absl::StatusCode::kResourceExhausted);
}

// The same heap as an array of blocks.
class Model {
 public:
  Model(size_t blocks, Fit fit) : blocks_(blocks, 0), fit_(fit) {}

  std::optional<size_t> Allocate(AllocationId id, size_t count) {
    std::optional<size_t> first;
    std::optional<size_t> found;
    for (const auto& [begin, end] : Holes()) {
      if (end - begin < count) continue;
      if (!first.has_value()) first = begin;
      const bool exact = end - begin == count && end != blocks_.size();
      if (fit_ == Fit::kExactFitFirstFit && exact && !found.has_value()) found = begin;
    }
    if (!found.has_value()) found = first;
    if (found.has_value()) Set(*found, count, id);
    return found;
  }
  void Set(size_t begin, size_t count, AllocationId id) {
    std::fill_n(blocks_.begin() + static_cast<std::ptrdiff_t>(begin), count, id);
  }
  size_t LargestHole() const {
    size_t largest = 0;
    for (const auto& [begin, end] : Holes()) largest = std::max(largest, end - begin);
    return largest;
  }

 private:
  std::vector<std::pair<size_t, size_t>> Holes() const {
    std::vector<std::pair<size_t, size_t>> holes;
    for (size_t at = 0; at < blocks_.size(); ++at) {
      if (blocks_[at] != 0) continue;
      const size_t begin = at;
      while (at < blocks_.size() && blocks_[at] == 0) ++at;
      holes.emplace_back(begin, at);
    }
    return holes;
  }

  std::vector<AllocationId> blocks_;  // 0: empty
  Fit fit_;
};

void CheckRegions(const Heap& heap, const std::map<AllocationId, Region>& live) {
  std::vector<Region> expected;
  for (const auto& [id, region] : live) expected.push_back(region);
  std::sort(expected.begin(), expected.end(),
            [](const Region& a, const Region& b) { return a.offset < b.offset; });
  const std::vector<Region> regions = heap.Allocated();
  REQUIRE(regions == expected);
  int64_t used = 0;
  for (size_t i = 0; i < regions.size(); ++i) {
    if (i > 0) REQUIRE(regions[i - 1].end() <= regions[i].offset);
    used += regions[i].bytes;
  }
  REQUIRE(heap.used_bytes() == used);
}

void Compare(Fit fit, uint32_t seed, int operations) {
  CAPTURE(seed);
  constexpr size_t kBlocks = 120;
  std::mt19937 random(seed);
  Heap heap(kBlocks * kHeapBlock, fit);
  Model model(kBlocks, fit);
  std::map<AllocationId, Region> live;
  for (int i = 1; i <= operations; ++i) {
    if (live.empty() || random() % 100 < 52) {
      const size_t count = 1 + random() % (random() % 10 == 0 ? 40 : 8);
      const int64_t bytes =
          static_cast<int64_t>(count) * kHeapBlock - static_cast<int64_t>(random() % kHeapBlock);
      const absl::StatusOr<Region> region = heap.Allocate(i, bytes);
      const std::optional<size_t> expected = model.Allocate(i, count);
      REQUIRE(region.ok() == expected.has_value());
      if (!region.ok()) continue;
      REQUIRE(*region == Region{static_cast<int64_t>(*expected) * kHeapBlock,
                                static_cast<int64_t>(count) * kHeapBlock});
      live[i] = *region;
    } else {
      auto victim =
          live.lower_bound(static_cast<AllocationId>(random() % static_cast<uint32_t>(i)));
      if (victim == live.end()) victim = live.begin();
      REQUIRE(heap.Free(victim->first).ok());
      const Region region = victim->second;
      model.Set(static_cast<size_t>(region.offset / kHeapBlock),
                static_cast<size_t>(region.bytes / kHeapBlock), 0);
      live.erase(victim);
    }
    if (i % 64 == 0) {
      REQUIRE(heap.LargestFreeBytes() == static_cast<int64_t>(model.LargestHole()) * kHeapBlock);
      CheckRegions(heap, live);
    }
  }
  for (const auto& [id, region] : live) REQUIRE(heap.Free(id).ok());
  REQUIRE(heap.LargestFreeBytes() == kBlocks * kHeapBlock);
}

TEST_CASE("a million random operations agree with an array of blocks: first fit") {
  MESSAGE("seed 1");
  Compare(Fit::kFirstFit, 1, 1'000'000);
}

TEST_CASE("a million random operations agree with an array of blocks: exact fit, then first fit") {
  MESSAGE("seed 2");
  Compare(Fit::kExactFitFirstFit, 2, 1'000'000);
}

}  // namespace
}  // namespace neap

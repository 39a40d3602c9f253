// What every Allocator promises, checked for each.
#include "neap/memory/placement/allocator.h"

#include <doctest/doctest.h>

#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "neap/core/base/units.h"
#include "neap/memory/placement/heap.h"
#include "neap/memory/placement/offline_allocator.h"

namespace neap {
namespace {

constexpr int64_t kBlock = kBlockBytes;

struct Candidate {
  std::string name;
  std::function<std::unique_ptr<Allocator>(int64_t capacity_bytes)> make;
};

std::vector<Candidate> Candidates() {
  const auto offline = [](absl::flat_hash_map<AllocationId, Region> places) {
    return
        [places](int64_t capacity) { return std::make_unique<OfflineAllocator>(capacity, places); };
  };
  return {
      {"first fit",
       [](int64_t capacity) { return std::make_unique<Heap>(capacity, Fit::kFirstFit); }},
      {"exact fit",
       [](int64_t capacity) { return std::make_unique<Heap>(capacity, Fit::kExactFitFirstFit); }},
      {"offline, nothing planned", offline({})},
      {"offline, some outgrow their places",
       offline({{1, {4 * kBlock, 0}}, {2, {0, 0}}, {7, {20 * kBlock, 0}}, {30, {2 * kBlock, 0}}})}};
}

TEST_CASE("allocators hand out whole blocks, disjoint, within the capacity") {
  for (const Candidate& candidate : Candidates()) {
    for (uint32_t seed = 1; seed <= 20; ++seed) {
      CAPTURE(candidate.name);
      CAPTURE(seed);
      std::mt19937 random(seed);
      const std::unique_ptr<Allocator> allocator = candidate.make(64 * kBlock);
      std::map<AllocationId, Region> live;
      for (AllocationId id = 0; id < 300; ++id) {
        const int64_t bytes = 1 + static_cast<int64_t>(random() % (8 * kBlock));
        const bool must_fit = bytes <= allocator->LargestFreeBytes();
        const absl::StatusOr<Region> region = allocator->Allocate(id, bytes);
        REQUIRE(region.ok() == must_fit);
        if (!region.ok()) {
          REQUIRE(region.status().code() == absl::StatusCode::kResourceExhausted);
          REQUIRE(allocator->Free(live.begin()->first).ok());
          live.erase(live.begin());
          continue;
        }
        REQUIRE(region->offset % kBlock == 0);
        REQUIRE(region->bytes == RoundUp(bytes, kBlock));
        REQUIRE(region->end() <= 64 * kBlock);
        for (const auto& [other, taken] : live) {
          REQUIRE((region->end() <= taken.offset || taken.end() <= region->offset));
        }
        live[id] = *region;
      }
      for (const auto& [id, region] : live) REQUIRE(allocator->Free(id).ok());
      CHECK(allocator->LargestFreeBytes() == 64 * kBlock);
    }
  }
}

TEST_CASE("allocators refuse what makes no sense and stay usable") {
  for (const Candidate& candidate : Candidates()) {
    CAPTURE(candidate.name);
    const std::unique_ptr<Allocator> allocator = candidate.make(10 * kBlock + 5);
    CHECK(allocator->Allocate(1, 0).status().code() == absl::StatusCode::kInvalidArgument);
    CHECK(allocator->Allocate(1, -1).status().code() == absl::StatusCode::kInvalidArgument);
    CHECK(allocator->Free(1).code() == absl::StatusCode::kNotFound);
    CHECK(allocator->Allocate(1, 11 * kBlock).status().code() ==
          absl::StatusCode::kResourceExhausted);
    CHECK(allocator->Allocate(1, std::numeric_limits<int64_t>::max()).status().code() ==
          absl::StatusCode::kResourceExhausted);
    REQUIRE(allocator->Allocate(1, 10 * kBlock).ok());
    CHECK(allocator->Allocate(1, kBlock).status().code() == absl::StatusCode::kInvalidArgument);
    CHECK(allocator->LargestFreeBytes() == 0);
    CHECK(allocator->Allocate(5, 1).status().code() == absl::StatusCode::kResourceExhausted);
    REQUIRE(allocator->Free(1).ok());
    CHECK(allocator->Free(1).code() == absl::StatusCode::kNotFound);
    CHECK(allocator->LargestFreeBytes() == 10 * kBlock);
  }
}

TEST_CASE("an allocator without capacity has nothing to give") {
  for (const Candidate& candidate : Candidates()) {
    for (const int64_t capacity : {int64_t{0}, int64_t{1023}, int64_t{-5}}) {
      CAPTURE(candidate.name);
      const std::unique_ptr<Allocator> allocator = candidate.make(capacity);
      CHECK(allocator->LargestFreeBytes() == 0);
      CHECK(allocator->Allocate(1, 1).status().code() == absl::StatusCode::kResourceExhausted);
    }
  }
}

TEST_CASE(
    "offline: what is planned goes to its place, the rest and what has outgrown its place to the "
    "first hole") {
  //  block  0 1 2 3 4 5 6 7
  //         . . 1 1 . . . .     planned: 1 at block 2, 2 at block 1
  OfflineAllocator allocator(8 * kBlock, {{1, {2 * kBlock, 2 * kBlock}}, {2, {kBlock, kBlock}}});
  CHECK(*allocator.Allocate(1, 2 * kBlock) == Region{2 * kBlock, 2 * kBlock});
  CHECK(*allocator.Allocate(9, 2 * kBlock) == Region{0, 2 * kBlock});
  REQUIRE(allocator.Free(9).ok());
  CHECK(*allocator.Allocate(2, 3 * kBlock) == Region{4 * kBlock, 3 * kBlock});
  REQUIRE(allocator.Free(2).ok());
  CHECK(*allocator.Allocate(2, kBlock) == Region{kBlock, kBlock});
}

TEST_CASE("offline: what was planned gets its place or nothing, never another") {
  //  block  0 1 2 3 4 5 6 7
  //         . . 1 1 . . . .     planned: 1 and 2, which overlap, and 3 beyond the arena
  //             2 2 2
  OfflineAllocator allocator(8 * kBlock, {{1, {2 * kBlock, 2 * kBlock}},
                                          {2, {2 * kBlock, 3 * kBlock}},
                                          {3, {7 * kBlock, 2 * kBlock}}});
  REQUIRE(allocator.Allocate(1, 2 * kBlock).ok());
  const absl::Status taken = allocator.Allocate(2, 3 * kBlock).status();
  CHECK(taken.code() == absl::StatusCode::kInternal);
  CHECK(std::string(taken.message()).find("the planned place of allocation 2 is not free") == 0);
  CHECK(allocator.Allocate(2, kBlock).status().code() == absl::StatusCode::kInternal);
  CHECK(allocator.Allocate(3, 2 * kBlock).status().code() == absl::StatusCode::kInternal);
  CHECK(allocator.Allocate(1, kBlock).status().code() == absl::StatusCode::kInvalidArgument);
  REQUIRE(allocator.Free(1).ok());
  CHECK(*allocator.Allocate(2, 3 * kBlock) == Region{2 * kBlock, 3 * kBlock});
}

}  // namespace
}  // namespace neap

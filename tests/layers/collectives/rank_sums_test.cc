#include "neap/layers/collectives/rank_sums.h"

#include <doctest/doctest.h>

#include <memory>
#include <thread>
#include <vector>

#include "neap/layers/collectives/local_ranks.h"
#include "neap/layers/cpu/cpu_device.h"
#include "tests/layers/collectives/large_bucket.h"

namespace neap {
namespace {

TEST_CASE("tensors are packed into pieces, weighted, and unpacked to where they came from") {
  std::vector<float> a = {1, 2}, b = {3, 4, 5, 6, 7}, empty, c = {8};
  const std::vector<ReduceBuffer> bucket = {{.data = a.data(), .count = 2},
                                            {.data = b.data(), .count = 5, .weight = 0.5F},
                                            {.data = empty.data(), .count = 0},
                                            {.data = c.data(), .count = 1}};
  Packing packing(bucket, /*piece_values=*/3);
  const std::vector<std::vector<float>> pieces = {{1, 2, 1.5F}, {2, 2.5F, 3}, {3.5F, 8}};
  for (const std::vector<float>& expected : pieces) {
    std::vector<float> piece(3);
    piece.resize(static_cast<size_t>(packing.Pack(piece.data())));
    CHECK(piece == expected);
    for (float& value : piece) value *= 10;
    packing.Unpack(piece.data());
  }
  std::vector<float> rest(3);
  CHECK(packing.Pack(rest.data()) == 0);
  CHECK(a == std::vector<float>{10, 20});
  CHECK(b == std::vector<float>{15, 20, 25, 30, 35});
  CHECK(c == std::vector<float>{80});
}

TEST_CASE("parts of ranks are packed by owner, piece after piece") {
  std::vector<char> a = {1, 2, 3, 4, 5}, b = {6, 7, 8, 9, 10, 11, 12, 13};
  const std::vector<ShardedTensor> tensors = {
      {.data = reinterpret_cast<std::byte*>(a.data()), .bytes = {1, 4}},
      {.data = reinterpret_cast<std::byte*>(b.data()), .bytes = {6, 2}}};
  ShardPieces pieces(tensors, /*piece_bytes=*/11);
  std::vector<std::vector<std::vector<char>>> found;
  while (pieces.Next()) {
    found.emplace_back();
    for (int owner = 0; owner < 2; ++owner) {
      std::vector<char> part(static_cast<size_t>(pieces.bytes()[static_cast<size_t>(owner)]));
      pieces.Pack(owner, reinterpret_cast<std::byte*>(part.data()));
      found.back().push_back(part);
      for (char& value : part) value = static_cast<char>(value + 10);
      pieces.Unpack(owner, reinterpret_cast<const std::byte*>(part.data()));
    }
  }
  CHECK(found == std::vector<std::vector<std::vector<char>>>{{{1, 6, 7, 8}, {2, 3, 4, 5}},
                                                             {{9, 10, 11}, {12, 13}}});
  CHECK(a == std::vector<char>{11, 12, 13, 14, 15});
  CHECK(b == std::vector<char>{16, 17, 18, 19, 20, 21, 22, 23});
}

TEST_CASE("parts are added in their order") {
  const std::vector<float> first = {1e8F, 1}, second = {1, 2}, third = {-1e8F, 3};
  std::vector<float> sum(2);
  SumInOrder(std::vector<const float*>{first.data(), second.data(), third.data()}, 2, sum.data());
  CHECK(sum == std::vector<float>{(1e8F + 1) - 1e8F, 6});
}

TEST_CASE("threads sum tensors of several pieces") {
  constexpr int kRanks = 3;
  LocalRanks group(kRanks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&group, rank] {
      const std::unique_ptr<CpuDevice> device = CpuDevice::Open().value();
      const auto communicator = group.Join(rank, *device);
      testing::CheckLargeBucket(*device, *communicator);
      testing::CheckLargeShards(*device, *communicator);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace neap

// Buckets of more than two pieces (layers/collectives/rank_sums.h), exchanged by ranks.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "neap/core/device/communicator.h"
#include "neap/core/device/device.h"
#include "neap/layers/collectives/rank_sums.h"

namespace neap::testing {

// To be called by all ranks. Rank r has the values r + 1, times its weight.
inline void CheckLargeBucket(Device& device, Communicator& communicator) {
  const auto mine = static_cast<float>(communicator.rank() + 1);
  std::vector<float> large(2 * kPieceValues + 5, mine), small(7, mine);
  const std::vector<ReduceBuffer> bucket = {
      {.data = small.data(), .count = static_cast<int64_t>(small.size()), .weight = 0.25F},
      {.data = large.data(), .count = static_cast<int64_t>(large.size())}};
  const absl::Status begun = communicator.AllReduce(bucket);
  REQUIRE_MESSAGE(begun.ok(), begun.ToString());
  const absl::Status done = device.Synchronize();
  REQUIRE_MESSAGE(done.ok(), done.ToString());
  const int ranks = communicator.ranks();
  const auto sum = static_cast<float>(ranks * (ranks + 1) / 2);
  CHECK(large == std::vector<float>(large.size(), sum));
  CHECK(small == std::vector<float>(small.size(), 0.25F * sum));
}

// The same for tensors of which each rank owns a part: a large one, the last part of which is the
// largest, and a small one of the last rank. To be called by all ranks.
inline void CheckLargeShards(Device& device, Communicator& communicator) {
  const auto ranks = static_cast<size_t>(communicator.ranks());
  const auto rank = static_cast<size_t>(communicator.rank());
  const auto mine = static_cast<float>(rank + 1);
  const size_t part = kPieceValues + 3, rest = 5;
  std::vector<float> large(part * ranks + rest, mine), small(7, mine);
  const auto bytes = [](size_t values) { return static_cast<int64_t>(values * sizeof(float)); };
  std::vector<int64_t> of_large(ranks, bytes(part)), of_small(ranks, 0);
  of_large.back() += bytes(rest);
  of_small.back() = bytes(small.size());
  const std::vector<ShardedTensor> tensors = {
      {.data = reinterpret_cast<std::byte*>(small.data()), .bytes = of_small},
      {.data = reinterpret_cast<std::byte*>(large.data()), .bytes = of_large}};
  const auto done = [&](const absl::Status& begun) {
    REQUIRE_MESSAGE(begun.ok(), begun.ToString());
    const absl::Status ended = device.Synchronize();
    REQUIRE_MESSAGE(ended.ok(), ended.ToString());
  };
  done(communicator.ReduceScatter(tensors));
  const auto sum = static_cast<float>(ranks * (ranks + 1) / 2);
  const bool is_last = rank + 1 == ranks;
  const auto own = large.begin() + static_cast<std::ptrdiff_t>(rank * part);
  const std::vector<float> found(own, is_last ? large.end() : own + std::ptrdiff_t{part});
  CHECK(found == std::vector<float>(part + (is_last ? rest : 0), sum));
  if (is_last) CHECK(small == std::vector<float>(small.size(), sum));

  std::fill(large.begin(), large.end(), mine);
  std::fill(small.begin(), small.end(), mine);
  done(communicator.AllGather(tensors));
  std::vector<float> expected;
  for (size_t owner = 0; owner < ranks; ++owner)
    expected.resize(expected.size() + part, static_cast<float>(owner + 1));
  expected.resize(large.size(), static_cast<float>(ranks));
  CHECK(large == expected);
  CHECK(small == std::vector<float>(small.size(), static_cast<float>(ranks)));
}

}  // namespace neap::testing

// A bucket of more than two pieces (layers/collectives/rank_sums.h), summed by ranks.
#pragma once

#include <doctest/doctest.h>

#include <vector>

#include "neap/core/device/communicator.h"
#include "neap/core/device/device.h"
#include "neap/layers/collectives/rank_sums.h"

namespace neap::testing {

// To be called by all ranks. Rank r has the values r + 1, times its weight.
inline void CheckLargeBucket(Device& device, Communicator& communicator) {
  const auto mine = static_cast<float>(communicator.rank() + 1);
  std::vector<float> large(2 * kPieceValues + 5, mine), small(7, mine);
  const std::vector<Summand> bucket = {
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

}  // namespace neap::testing

#include "neap/memory/transfer/pools.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <vector>

#include "neap/core/base/units.h"
#include "tests/memory/transfer/moves.h"

namespace neap {
namespace {

// The offloads of a plan whose pools have been laid out, in issue order.
std::vector<OffloadAction> LaidOut(Plan& plan) {
  LayOutPools(plan);
  std::vector<OffloadAction> offloads;
  for (const Action& action : plan.actions) {
    if (const auto* offload = std::get_if<OffloadAction>(&action)) offloads.push_back(*offload);
  }
  return offloads;
}
int64_t PeakBytes(const Plan& plan, Pool pool) {
  return PoolPeakBytes(plan)[static_cast<size_t>(pool)];
}

TEST_CASE("a plan that moves nothing needs no host memory") {
  Plan plan = PlanOf({3});
  CHECK(LaidOut(plan).empty());
  CHECK(PeakBytes(plan, Pool::kHost) == 0);
  CHECK(plan.host_pool_bytes == 0);
  CHECK(plan.peer_pool_bytes == 0);
}

TEST_CASE("a copy takes the place of one that has come back") {
  //   actions   0 offload a   1 prefetch a   2 offload b    3 prefetch b
  //   place     [==== a ==================)  [==== b ====================)
  Plan plan = PlanOf({3, 3});
  Offload(plan, 0);
  Prefetch(plan, 0);
  Offload(plan, 1);
  Prefetch(plan, 1);
  const std::vector<OffloadAction> offloads = LaidOut(plan);
  CHECK(plan.host_pool_bytes == 3 * kBlockBytes);
  CHECK(PeakBytes(plan, Pool::kHost) == 3 * kBlockBytes);
  REQUIRE(offloads.size() == 2);
  CHECK(offloads[0].offset == 0);
  CHECK(offloads[1].offset == 0);
}

TEST_CASE("a copy that is read twice keeps its place until the second time") {
  //   actions   0 offload a   1 prefetch a   2 offload b   3 prefetch a   4 offload b
  //   place 0   [==== a ==========================================)       [= b again
  //   place 1                                [==== b ====================)
  Plan plan = PlanOf({2, 2});
  Offload(plan, 0);
  Prefetch(plan, 0);
  Offload(plan, 1);
  Prefetch(plan, 0);
  Offload(plan, 1);  // b has changed: its first copy is worth nothing
  Prefetch(plan, 1);
  const std::vector<OffloadAction> offloads = LaidOut(plan);
  CHECK(plan.host_pool_bytes == 4 * kBlockBytes);
  REQUIRE(offloads.size() == 3);
  CHECK(offloads[1].offset != offloads[0].offset);
}

TEST_CASE("a copy that no prefetch reads keeps its place to the end") {
  Plan plan = PlanOf({2, 2});
  Offload(plan, 0);
  Offload(plan, 1);
  Prefetch(plan, 1);
  CHECK(PeakBytes(plan, Pool::kHost) == 4 * kBlockBytes);
  LayOutPools(plan);
  CHECK(plan.host_pool_bytes == 4 * kBlockBytes);
}

TEST_CASE("a copy has its place in the pool that its offload names, and leaves the other alone") {
  //   actions   0 a out   1 b out to the peer   2 a out to the peer   3 a back   4 b back   5 c out
  //   host 0    [= a, not read ===============)                                             [= c
  //   peer 0              [= b ===========================================)
  //   peer 2                                    [= a ====================)
  Plan plan = PlanOf({3, 2, 1});
  Offload(plan, 0);
  Offload(plan, 1, Pool::kPeer);
  Offload(plan, 0, Pool::kPeer);  // a has changed, and goes elsewhere
  Prefetch(plan, 0);
  Prefetch(plan, 1);
  Offload(plan, 2);
  const std::vector<OffloadAction> offloads = LaidOut(plan);
  CHECK(plan.host_pool_bytes == 3 * kBlockBytes);
  CHECK(plan.peer_pool_bytes == 5 * kBlockBytes);
  CHECK(PeakBytes(plan, Pool::kHost) == 3 * kBlockBytes);
  CHECK(PeakBytes(plan, Pool::kPeer) == 5 * kBlockBytes);
  REQUIRE(offloads.size() == 4);
  CHECK(offloads[0].offset == 0);
  CHECK(offloads[1].offset == 0);
  CHECK(offloads[2].offset == 2 * kBlockBytes);
  CHECK(offloads[3].offset == 0);
}

TEST_CASE("waits and allocations between the transfers change no place") {
  Plan plan = PlanOf({3, 2, 1});
  for (size_t i : {0U, 1U, 2U}) Offload(plan, i);
  for (size_t i : {1U, 0U, 2U}) Prefetch(plan, i);
  Plan later = plan;
  for (size_t i = 0; i < 40; ++i)
    later.actions.insert(later.actions.begin() + 2, WaitAction{Stream::kH2d, 0});
  CHECK(LaidOut(later) == LaidOut(plan));
  CHECK(later.host_pool_bytes == plan.host_pool_bytes);
}

//   host   v | w | b        v and w are there between iterations, and w returns to where it was
TEST_CASE("copies lie above the tensors that are on the host between iterations") {
  Plan plan = PlanOf({2, 1, 3});
  plan.tensors[0].host_offset = 0;
  plan.tensors[1].host_offset = 2 * kBlockBytes;
  plan.host_resident_bytes = 3 * kBlockBytes;
  Prefetch(plan, 1);
  Offload(plan, 2);
  Offload(plan, 1);
  Prefetch(plan, 2);
  const std::vector<OffloadAction> offloads = LaidOut(plan);
  CHECK(offloads[0].offset == 3 * kBlockBytes);
  CHECK(offloads[1].offset == 2 * kBlockBytes);
  CHECK(plan.host_pool_bytes == 6 * kBlockBytes);
  CHECK(PeakBytes(plan, Pool::kHost) == 6 * kBlockBytes);
  Plan apart = plan;
  LayOutApart(apart);
  CHECK(apart == plan);
}

TEST_CASE("laid out apart, no two copies have bytes in common") {
  Plan plan = PlanOf({3, 3});
  Offload(plan, 0);
  Prefetch(plan, 0);
  Offload(plan, 1);
  Offload(plan, 0, Pool::kPeer);
  LayOutApart(plan);
  CHECK(std::get<OffloadAction>(plan.actions[0]).offset == 0);
  CHECK(std::get<OffloadAction>(plan.actions[2]).offset == 3 * kBlockBytes);
  CHECK(std::get<OffloadAction>(plan.actions[3]).offset == 0);
  CHECK(plan.host_pool_bytes == 6 * kBlockBytes);
  CHECK(plan.peer_pool_bytes == 3 * kBlockBytes);
}

// Which copy is there when, found action by action.
struct Held {
  TensorId tensor;
  int64_t offset = 0;
  int64_t begin = 0;
  int64_t end = 0;  // one past the last prefetch; without any, the next offload of it, or the end
};
std::vector<Held> NaiveCopies(const Plan& plan, Pool pool) {
  std::vector<Held> held;
  for (size_t i = 0; i < plan.actions.size(); ++i) {
    const auto* offload = std::get_if<OffloadAction>(&plan.actions[i]);
    if (offload == nullptr || offload->pool != pool) continue;
    Held copy = {.tensor = offload->tensor,
                 .offset = offload->offset,
                 .begin = static_cast<int64_t>(i),
                 .end = static_cast<int64_t>(plan.actions.size())};
    std::optional<int64_t> read;
    for (size_t j = i + 1; j < plan.actions.size(); ++j) {
      const auto* next = std::get_if<OffloadAction>(&plan.actions[j]);
      if (next != nullptr && next->tensor == offload->tensor) {
        copy.end = static_cast<int64_t>(j);
        break;
      }
      if (plan.actions[j] == Action(PrefetchAction{offload->tensor}))
        read = static_cast<int64_t>(j);
    }
    if (read.has_value()) copy.end = *read + 1;
    held.push_back(copy);
  }
  return held;
}

void CheckLayout(const Plan& plan, Pool pool, int64_t pool_bytes) {
  const std::vector<Held> copies = NaiveCopies(plan, pool);
  const auto end = [&](const Held& copy) {
    return copy.offset + RoundUp(plan.tensors[copy.tensor.index()].bytes, kBlockBytes);
  };
  int64_t peak = 0;
  for (const Held& copy : copies) {
    REQUIRE(copy.offset >= 0);
    REQUIRE(copy.offset % kBlockBytes == 0);
    REQUIRE(end(copy) <= pool_bytes);
    int64_t alive = 0;
    for (const Held& other : copies) {
      if (copy.begin < other.begin || other.end <= copy.begin) continue;
      alive += end(other) - other.offset;
      const bool overlap = copy.offset < end(other) && other.offset < end(copy);
      if (copy.begin != other.begin) REQUIRE(!overlap);
    }
    peak = std::max(peak, alive);
  }
  REQUIRE(PeakBytes(plan, pool) == peak);
  REQUIRE(pool_bytes >= peak);
}

TEST_CASE("random transfers: no two copies that are there at the same time share bytes") {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    Plan plan = RandomMoves(random);
    for (Action& action : plan.actions) {
      auto* offload = std::get_if<OffloadAction>(&action);
      if (offload != nullptr && random() % 3 == 0) offload->pool = Pool::kPeer;
    }
    LayOutPools(plan);
    CheckLayout(plan, Pool::kHost, plan.host_pool_bytes);
    CheckLayout(plan, Pool::kPeer, plan.peer_pool_bytes);
    LayOutApart(plan);
    CheckLayout(plan, Pool::kHost, plan.host_pool_bytes);
    CheckLayout(plan, Pool::kPeer, plan.peer_pool_bytes);
  }
}

}  // namespace
}  // namespace neap

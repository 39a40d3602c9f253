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

PoolLayout LayOut(const Plan& plan, Pool pool) {
  return LayOutPools(plan)[static_cast<size_t>(pool)];
}
int64_t PeakBytes(const Plan& plan, Pool pool) {
  return PoolPeakBytes(plan)[static_cast<size_t>(pool)];
}

TEST_CASE("a plan that moves nothing needs no host memory") {
  const Plan plan = PlanOf({3});
  CHECK(PeakBytes(plan, Pool::kHost) == 0);
  CHECK(LayOut(plan, Pool::kHost).bytes == 0);
  CHECK(LayOut(plan, Pool::kHost).places.empty());
}

TEST_CASE("a copy takes the place of one that has come back, once that one is read") {
  //   actions   0 offload a   1 prefetch a   2 offload b    3 prefetch b
  //   place     [==== a ==================)  [==== b ====================)   b's offload waits for
  //   1
  Plan plan = PlanOf({3, 3});
  Offload(plan, 0);
  Prefetch(plan, 0);
  Offload(plan, 1);
  Prefetch(plan, 1);
  const PoolLayout layout = LayOut(plan, Pool::kHost);
  CHECK(layout.bytes == 3 * kBlockBytes);
  CHECK(PeakBytes(plan, Pool::kHost) == 3 * kBlockBytes);
  REQUIRE(layout.places.size() == 2);
  CHECK(layout.places[0].action == 0);
  CHECK(!layout.places[0].wait_for.has_value());
  CHECK(layout.places[1].action == 2);
  CHECK(layout.places[1].offset == layout.places[0].offset);
  CHECK(layout.places[1].wait_for == 1);
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
  const PoolLayout layout = LayOut(plan, Pool::kHost);
  CHECK(layout.bytes == 4 * kBlockBytes);
  REQUIRE(layout.places.size() == 3);
  CHECK(!layout.places[1].wait_for.has_value());
  CHECK(layout.places[1].offset != layout.places[0].offset);
}

TEST_CASE("a copy that nobody reads keeps its place to the end") {
  Plan plan = PlanOf({2, 2});
  Offload(plan, 0);
  Offload(plan, 1);
  Prefetch(plan, 1);
  CHECK(PeakBytes(plan, Pool::kHost) == 4 * kBlockBytes);
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
  const PoolLayout host = LayOut(plan, Pool::kHost);
  const PoolLayout peer = LayOut(plan, Pool::kPeer);
  CHECK(host.bytes == 3 * kBlockBytes);
  CHECK(peer.bytes == 5 * kBlockBytes);
  CHECK(PeakBytes(plan, Pool::kHost) == 3 * kBlockBytes);
  CHECK(PeakBytes(plan, Pool::kPeer) == 5 * kBlockBytes);
  REQUIRE(host.places.size() == 2);
  REQUIRE(peer.places.size() == 2);
  CHECK(host.places[1].action == 5);
  CHECK(!host.places[1].wait_for.has_value());  // a's first copy was never read
  CHECK(peer.places[0].action == 1);
  CHECK(peer.places[0].offset == 0);
  CHECK(peer.places[1].action == 2);
  CHECK(peer.places[1].offset == 2 * kBlockBytes);
}

TEST_CASE("waits and allocations between the transfers change no place") {
  Plan plan = PlanOf({3, 2, 1});
  for (size_t i : {0U, 1U, 2U}) Offload(plan, i);
  for (size_t i : {1U, 0U, 2U}) Prefetch(plan, i);
  const PoolLayout layout = LayOut(plan, Pool::kHost);
  for (size_t i = 0; i < 40; ++i)
    plan.actions.insert(plan.actions.begin() + 2, WaitAction{Stream::kH2d, 0});
  const PoolLayout later = LayOut(plan, Pool::kHost);
  CHECK(later.bytes == layout.bytes);
  for (size_t i = 0; i < 3; ++i) CHECK(later.places[i].offset == layout.places[i].offset);
}

// Who holds which copy, action by action.
struct Held {
  size_t place = 0;  // index into PoolLayout::places
  int64_t begin = 0;
  int64_t end = 0;  // one past the last prefetch; without any, the next offload of it, or the end
  std::optional<int64_t> read = {};
};
std::vector<Held> NaiveCopies(const Plan& plan, Pool pool) {
  std::vector<Held> held;
  for (size_t i = 0; i < plan.actions.size(); ++i) {
    const auto* offload = std::get_if<OffloadAction>(&plan.actions[i]);
    if (offload == nullptr || offload->pool != pool) continue;
    Held copy = {.place = held.size(),
                 .begin = static_cast<int64_t>(i),
                 .end = static_cast<int64_t>(plan.actions.size())};
    for (size_t j = i + 1; j < plan.actions.size(); ++j) {
      const auto* next = std::get_if<OffloadAction>(&plan.actions[j]);
      if (next != nullptr && next->tensor == offload->tensor) {
        copy.end = static_cast<int64_t>(j);
        break;
      }
      if (plan.actions[j] == Action(PrefetchAction{offload->tensor}))
        copy.read = static_cast<int64_t>(j);
    }
    if (copy.read.has_value()) copy.end = *copy.read + 1;
    held.push_back(copy);
  }
  return held;
}

void CheckLayout(const Plan& plan, Pool pool) {
  const PoolLayout layout = LayOut(plan, pool);
  const std::vector<Held> copies = NaiveCopies(plan, pool);
  REQUIRE(layout.places.size() == copies.size());
  const auto bytes = [&](size_t i) {
    return RoundUp(plan.tensors[layout.places[i].tensor.index()].bytes, kBlockBytes);
  };
  const auto overlap = [&](size_t i, size_t j) {
    return layout.places[i].offset < layout.places[j].offset + bytes(j) &&
           layout.places[j].offset < layout.places[i].offset + bytes(i);
  };
  int64_t peak = 0;
  for (size_t i = 0; i < copies.size(); ++i) {
    REQUIRE(layout.places[i].action == copies[i].begin);
    REQUIRE(layout.places[i].offset + bytes(i) <= layout.bytes);
    int64_t alive = 0;
    std::optional<int64_t> wait;
    for (size_t j = 0; j < copies.size(); ++j) {
      const bool together = copies[j].begin <= copies[i].begin && copies[i].begin < copies[j].end;
      if (together) alive += bytes(j);
      if (i != j && together) REQUIRE(!overlap(i, j));
      if (j < i && !together && overlap(i, j) && copies[j].read.has_value())
        wait = std::max(wait.value_or(0), *copies[j].read);
    }
    REQUIRE(layout.places[i].wait_for == wait);
    peak = std::max(peak, alive);
  }
  REQUIRE(PeakBytes(plan, pool) == peak);
  REQUIRE(layout.bytes >= peak);
}

TEST_CASE(
    "random transfers: no two copies share bytes, and whoever reuses them waits for the last") {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    Plan plan = RandomMoves(random);
    for (Action& action : plan.actions) {
      auto* offload = std::get_if<OffloadAction>(&action);
      if (offload != nullptr && random() % 3 == 0) offload->pool = Pool::kPeer;
    }
    CheckLayout(plan, Pool::kHost);
    CheckLayout(plan, Pool::kPeer);
  }
}

}  // namespace
}  // namespace neap

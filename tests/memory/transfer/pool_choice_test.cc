#include "neap/memory/transfer/pool_choice.h"

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

#include "neap/core/plan/plan_memory.h"
#include "neap/core/verifier/verifier.h"
#include "neap/layers/catalog/default_catalog.h"
#include "neap/layers/devices/device_description.h"
#include "neap/memory/planner.h"
#include "neap/memory/transfer/pools.h"
#include "neap/nets/registry.h"
#include "tests/memory/transfer/moves.h"

namespace neap {
namespace {

// One letter per offload: h or p.
std::string Pools(const Plan& plan) {
  std::string pools;
  for (const Action& action : plan.actions) {
    if (const auto* offload = std::get_if<OffloadAction>(&action))
      pools += offload->pool == Pool::kPeer ? 'p' : 'h';
  }
  return pools;
}

std::string Chosen(Plan plan, int64_t peer_blocks) {
  ChoosePools(peer_blocks * kBlockBytes, plan);
  LayOutPools(plan);
  CHECK(plan.peer_pool_bytes <= peer_blocks * kBlockBytes);
  return Pools(plan);
}

//   a  [=======================)     3 blocks, held the longest
//   b     [===========)              2
//   c        [=====)                 1
//   d                  [=====)       2: where b was
Plan Nested() {
  Plan plan = PlanOf({3, 2, 1, 2});
  for (size_t i : {0U, 1U, 2U}) Offload(plan, i);
  for (size_t i : {2U, 1U}) Prefetch(plan, i);
  Offload(plan, 3);
  for (size_t i : {3U, 0U}) Prefetch(plan, i);
  return plan;
}

TEST_CASE("the copies that are held for the shortest time go to the peer, as many as fit") {
  CHECK(Chosen(Nested(), 6) == "pppp");
  CHECK(Chosen(Nested(), 5) == "hppp");  // one block less than all need
  CHECK(Chosen(Nested(), 3) == "hppp");
  CHECK(Chosen(Nested(), 2) == "hhpp");
  CHECK(Chosen(Nested(), 1) == "hhph");
  CHECK(Chosen(Nested(), 0) == "hhhh");
}

//   a  [=====|=====|=====)     read three times
//   b     [==)                 read once, and there for one transfer only
//   c           [=============...   never read
TEST_CASE("reads count against the time: a copy that comes back often is worth its bytes") {
  Plan plan = PlanOf({1, 1, 1});
  Offload(plan, 2);
  Offload(plan, 0);
  for (int i = 0; i < 6; ++i) Prefetch(plan, 0);
  Offload(plan, 1);
  for (size_t i : {2U, 1U}) Prefetch(plan, i);
  CHECK(Chosen(plan, 1) == "hpp");  // a, then b in its place; c goes to the host
}

TEST_CASE("tensors that are on the host between iterations never go to the peer") {
  Plan plan = Nested();
  plan.tensors[2].role = Role::kParam;
  plan.tensors[2].host_offset = 0;
  CHECK(Chosen(plan, 100) == "pphp");
}

TEST_CASE(
    "random transfers: the layout on the peer is within its budget, and all go there where all "
    "fit") {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    Plan plan = RandomMoves(random);
    LayOutPools(plan);
    for (int64_t part = 0; part <= 8; ++part) {
      const int64_t budget = plan.host_pool_bytes * part / 8;
      Plan chosen = plan;
      ChoosePools(budget, chosen);
      LayOutPools(chosen);
      REQUIRE(chosen.peer_pool_bytes <= budget);
      REQUIRE(Pools(chosen).size() == Pools(plan).size());
      if (part == 0) REQUIRE(Pools(chosen).find('p') == std::string::npos);
      if (part == 8) REQUIRE(Pools(chosen).find('h') == std::string::npos);
    }
  }
}

class Planning {
 public:
  explicit Planning(const char* net)
      : program_(BuildProgram(nets::Build(net, {.batch = 16}).value(), {}).value()) {}

  absl::StatusOr<PlanResult> With(int64_t peer_budget_bytes, int64_t host_budget = kUnlimited) {
    absl::StatusOr<PlanResult> result = MakePlan(program_,
                                                 {.host_budget_bytes = host_budget,
                                                  .peer_budget_bytes = peer_budget_bytes,
                                                  .policy = "vdnn-all"},
                                                 device_, catalog_);
    if (result.ok()) CHECK(Verify(result->plan).ok());
    return result;
  }
  void TakePeerAway() { device_.peer_bandwidth = 0; }

 private:
  Program program_;
  DeviceDescription device_ = DescribedDevice("h200").value();
  DefaultCatalog catalog_;
};

TEST_CASE(
    "a peer that holds all takes all, and not a byte goes to the host; one block less, some") {
  Planning planning("resnet18");
  const PlanResult host = planning.With(0).value();
  CHECK(host.plan.peer_peak_bytes == 0);
  CHECK(host.plan.peer_pool_bytes == 0);
  const int64_t need = host.plan.host_pool_bytes;
  const PlanResult all = planning.With(need, /*host_budget=*/0).value();
  CHECK(all.plan.host_peak_bytes == 0);
  CHECK(all.plan.host_pool_bytes == 0);
  CHECK(all.plan.peer_pool_bytes == need);
  CHECK(all.plan.peer_peak_bytes == host.plan.host_peak_bytes);
  const Movement moved = TotalMovement(all.plan);
  CHECK(moved.offloaded_bytes == TotalMovement(host.plan).offloaded_bytes);
  CHECK(moved.peer_offloaded_bytes == moved.offloaded_bytes);
  CHECK(moved.peer_prefetched_bytes == moved.prefetched_bytes);
  CHECK(all.plan.predicted_ms < host.plan.predicted_ms);
  const int64_t less = host.plan.host_peak_bytes - kBlockBytes;
  CHECK(absl::IsResourceExhausted(planning.With(less, /*host_budget=*/0).status()));
  const PlanResult most = planning.With(less).value();
  CHECK(most.plan.peer_pool_bytes <= less);
  CHECK(most.plan.host_peak_bytes > 0);
  CHECK(TotalMovement(most.plan).peer_offloaded_bytes > moved.offloaded_bytes / 2);
}

TEST_CASE("a peer budget for a device without a peer is refused, and none is not") {
  Planning planning("resnet18");
  planning.TakePeerAway();
  CHECK(planning.With(0).ok());
  const absl::Status refused = planning.With(kMiB).status();
  CHECK(absl::IsInvalidArgument(refused));
  CHECK(std::string(refused.message()).find("NVIDIA H200 has no peer") != std::string::npos);
}

}  // namespace
}  // namespace neap

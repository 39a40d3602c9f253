#include "neap/core/verifier/pools.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/core/verifier/verdict.h"
#include "tests/plan_script.h"

namespace neap {
namespace {

//   blocks of the host's pool
//   2 |      [= z =====)
//   1 |        [= x ====)
//   0 | [= y =)[= x ====)
//     +----------------------> transfers
TEST_CASE("a copy may reuse bytes of a pool after the copy there has been read") {
  CHECK(Verdict(kPoolsPlan) == "");
  const std::string together =
      Edited(Edited(kPoolsPlan, "  left: offload y 0\n", "  left: offload y 0\n  offload x 0\n"),
             "host 3 host_pool 3", "host 4 host_pool 4");
  CHECK(Verdict(together) ==
        "plan fault [overlap]: action 7 (offload tensor 1 'x'): 2048 bytes at 0 of the host's pool "
        "overlap 1024 bytes at 0, where the copy of tensor 2 'y' is");
  const std::string apart =
      Edited(Edited(together, "  offload x 0\n", "  offload x 1\n"), "offload z 2", "offload z 3");
  CHECK(Verdict(apart) == "");
  // A copy reaches to the end of its last block.
  CHECK(Fault(apart, "left: offload y 0", "left: offload y 1") == "overlap");
  CHECK(Fault(apart, "left: offload y 0", "left: offload y 2") == "overlap");
  CHECK(Fault(apart, "offload z 3", "offload z 2") == "overlap");
}

TEST_CASE("bytes of a pool that a prefetch still reads need a wait before they are used again") {
  CHECK(Verdict(Edited(kPoolsPlan, "  wait d2h back\n", "")) ==
        "plan fault [race]: action 17 (offload tensor 1 'x'): it writes bytes of the host's pool "
        "before action 16 (prefetch tensor 2 'y') is known to have finished: stream d2h has to "
        "wait");
  CHECK(Fault(kPoolsPlan, "wait d2h back", "wait d2h made") == "race");
  CHECK(Fault(kPoolsPlan, "wait h2d left", "wait h2d made") == "race");
  // Bytes next to those that are read need none.
  const std::string beside = Edited(Edited(kPoolsPlan, "away: offload x 0", "away: offload x 3"),
                                    "host_pool 3", "host_pool 5");
  CHECK(Fault(beside, "  wait d2h back\n", "") == "");
}

TEST_CASE("copies lie in their pool, block by block") {
  CHECK(Fault(kPoolsPlan, "host_pool 3", "host_pool 2") == "out-of-pool");
  CHECK(Fault(kPoolsPlan, "peer_pool 2", "peer_pool 1") == "out-of-pool");
  CHECK(Fault(kPoolsPlan, "away: offload x 0", "away: offload x 2") == "out-of-pool");
  CHECK(Fault(kPoolsPlan, "away: offload x 0", "away: offload x -1") == "out-of-pool");
  CHECK(Fault(kPoolsPlan, "peer 1\n", "peer 9007199254740991\n") == "out-of-pool");
  CHECK(Fault(kPoolsPlan, "peer 1\n", "peer -9007199254740992\n") == "out-of-pool");
  CHECK(Fault(kPoolsPlan, "host_pool 3", "host_pool -3") == "bad-header");
  CHECK(Fault(kPoolsPlan, "peer_pool 2", "peer_pool -2") == "bad-header");
  CHECK(Fault(kPoolsPlan, "host_pool 3", "host_pool 9") == "");  // more than is used
  for (const int64_t shift : {512, 1, -512}) {
    Plan plan = PlanFromScript(kPoolsPlan);
    std::get<OffloadAction>(plan.actions[6]).offset += shift;
    CHECK(FaultOf(Verify(plan)) == "misaligned");
  }
}

TEST_CASE("a copy that no prefetch reads keeps its bytes until the tensor is offloaded again") {
  constexpr char kScript[] = R"(
    batch 1 budget 3 arena 3 peak 2 activations 0 host 2 host_pool 2
    tensor w param 1024
    tensor v param 1024
    step a forward reads w v
    alloc w 0
    alloc v 1
    run a forward
    offload w 0
    offload v 1
    offload w 0
  )";
  CHECK(Verdict(kScript) == "");
  CHECK(Fault(kScript, "    offload v 1\n", "    offload v 0\n") == "overlap");
  CHECK(Fault(kScript, "    offload v 1\n    offload w 0\n",
              "    offload v 1\n    offload w 1\n") == "overlap");
  // Its own bytes may be overwritten, and then belong to the new copy.
  CHECK(Verdict(Edited(Edited(kScript, "    offload v 1\n    offload w 0\n",
                              "    offload w 1\n    offload v 0\n"),
                       "host_pool 2", "host_pool 3")) == "");
}

TEST_CASE("tensors that are on the host between iterations have the first bytes of its pool") {
  CHECK(Verdict(kResidentPlan) == "");
  CHECK(Verdict(Edited(kResidentPlan, "v param 1024 on_host 0", "v param 1024 on_host 1")) ==
        "plan fault [overlap]: the plan: the place on the host of tensor 1 'v' overlaps that of "
        "tensor 0 'w'");
  CHECK(Fault(kResidentPlan, "v param 1024 on_host 0", "v param 2048 on_host 0") == "overlap");
  CHECK(Fault(kResidentPlan, "v param 1024 on_host 0", "v param 1024 on_host 2") == "out-of-pool");
  CHECK(Fault(kResidentPlan, "v param 1024 on_host 0", "v param 1024 on_host -1") == "out-of-pool");
  CHECK(Fault(kResidentPlan, "v param 1024 on_host 0", "v param 4096 on_host 0") == "out-of-pool");
  CHECK(Fault(kResidentPlan, "resident 2", "resident 1") == "out-of-pool");
  CHECK(Fault(kResidentPlan, "resident 2", "resident 4") == "bad-header");
  CHECK(Fault(kResidentPlan, "resident 2", "resident -1") == "bad-header");
  CHECK(FaultAfter(PlanFromScript(kResidentPlan),
                   [](Plan& plan) { *plan.tensors[1].host_offset += 512; }) == "misaligned");
  CHECK(FaultAfter(PlanFromScript(kResidentPlan), [](Plan& plan) {
          plan.tensors[2].host_offset = 0;  // the input
        }) == "bad-tensor");
}

TEST_CASE("no copy lies among the tensors that are on the host between iterations") {
  CHECK(Fault(kResidentPlan, "offload y 2", "offload y 1") == "out-of-pool");
  CHECK(Fault(kResidentPlan, "offload y 2", "offload y 0") == "out-of-pool");
  // Not even where they leave a gap.
  const std::string gap = Edited(
      Edited(Edited(kResidentPlan, "resident 2", "resident 3"), "host_pool 3", "host_pool 4"),
      "offload y 2", "offload y 3");
  CHECK(Verdict(gap) == "");
  CHECK(Fault(gap, "offload y 3", "offload y 2") == "out-of-pool");
}

TEST_CASE("a tensor that is on the host between iterations returns to its place there") {
  CHECK(Fault(kResidentPlan, "offload w 1", "offload w 0") == "copy");
  CHECK(Fault(kResidentPlan, "offload w 1", "offload w 2") == "copy");
  CHECK(Fault(kResidentPlan, "offload w 1", "offload w peer 1") == "copy");
  CHECK(Fault(kResidentPlan, "  offload w 1\n", "") == "end-state");
  CHECK(Fault(kResidentPlan, "  wait d2h done\n", "") == "race");
}

TEST_CASE("tensors on the host between iterations always count as bytes on the host") {
  CHECK(Fault(kResidentPlan, "host 3", "host 2") == "totals");
  CHECK(Fault(kResidentPlan, "host 3", "host 4") == "totals");
}

TEST_CASE("bytes on the peer are those of the copies offloaded there") {
  const std::string script = Edited(Edited(kTransferPlan, "host 2", "host 0 peer 2 peer_pool 2"),
                                    "offload a", "offload a peer");
  CHECK(Verdict(script) == "");
  CHECK(Fault(script, "peer 2", "peer 1") == "totals");
  CHECK(Fault(script, "peer 2", "peer 3") == "totals");
  CHECK(Fault(script, "host 0 peer 2", "host 2") == "totals");
  CHECK(Fault(script, "offload a peer", "offload a") == "totals");
  CHECK(Fault(script, "peer 2", "peer -2") == "bad-header");
}

TEST_CASE("a tensor that is offloaded elsewhere again frees its copy in the old pool") {
  constexpr char kScript[] = R"(
    batch 1 budget 3 arena 3 peak 2 activations 0 host 2 host_pool 2 peer 1 peer_pool 1
    tensor w param 1024
    tensor v param 1024
    step a forward reads w v
    alloc w 0
    alloc v 1
    run a forward
    offload w 0
    offload w peer 0         # one block on the host less
    offload v 0
  )";
  CHECK(Fault(Edited(kScript, "host 2", "host 1"), "host 1", "host 2") == "totals");
}

}  // namespace
}  // namespace neap

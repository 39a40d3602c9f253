// The bytes for the incoming batch lie in the arena, suffice, and overlap nothing.
#include <doctest/doctest.h>

#include <string>

#include "tests/core/verifier/verdict.h"
#include "tests/plan_script.h"

namespace neap {
namespace {

TEST_CASE("the incoming batch lies in the arena, in whole blocks") {
  CHECK(Verdict(kIncomingPlan) == "");
  CHECK(Fault(kIncomingPlan, "incoming 8 3", "incoming 10 3") == "out-of-arena");
  CHECK(Fault(kIncomingPlan, "incoming 8 3", "incoming -1 3") == "out-of-arena");
  CHECK(Fault(kIncomingPlan, "incoming 8 3", "incoming 8 0") == "out-of-arena");
  CHECK(Fault(kIncomingPlan, "incoming 8 3", "incoming 9007199254740991 3") == "out-of-arena");
  CHECK(FaultAfter(PlanFromScript(kIncomingPlan),
                   [](Plan& plan) { plan.incoming_batch->offset += 4; }) == "misaligned");
  CHECK(FaultAfter(PlanFromScript(kIncomingPlan),
                   [](Plan& plan) { plan.incoming_batch->bytes += 4; }) == "misaligned");
}

TEST_CASE("the incoming batch has room for every input and label, in whole blocks") {
  CHECK(Fault(kIncomingPlan, "incoming 8 3", "incoming 8 2") == "too-small");
  CHECK(Fault(kIncomingPlan, "tensor x input 2048", "tensor x input 2052") == "too-small");
  CHECK(Verdict(Edited(kIncomingPlan, "incoming 8 3", "incoming 9 2")) ==
        "plan fault [too-small]: the plan: 2048 bytes at 9216 for the incoming batch do not hold "
        "tensor 2 "
        "'l'");
}

TEST_CASE("neither a tensor nor a workspace may have bytes of the incoming batch, at any time") {
  CHECK(Verdict(Edited(kIncomingPlan, "alloc y 4", "alloc y 7")) ==
        "plan fault [overlap]: action 3 (alloc tensor 3 'y'): 2048 bytes at 7168 overlap 3072 "
        "bytes at 8192, in use by the incoming batch");
  CHECK(Fault(kIncomingPlan, "alloc w 0", "alloc w 10") == "overlap");
  CHECK(Fault(kIncomingPlan, "alloc x 1", "alloc x 9") == "overlap");
  CHECK(Fault(kIncomingPlan, "workspace 6 2", "workspace 6 3") == "overlap");
  CHECK(Fault(kIncomingPlan, "run conv update", "run conv update workspace 10 1") == "overlap");
  CHECK(Fault(kIncomingPlan, "run conv update", "run conv update workspace 7 5") == "overlap");
  // Below its beginning, and beyond its end.
  CHECK(Verdict(Edited(kIncomingPlan, "run conv update", "run conv update workspace 7 1")) == "");
  CHECK(Fault(kIncomingPlan, "run conv update", "run conv update workspace 11 1") == "totals");
}

TEST_CASE("the incoming batch counts towards the peak") {
  CHECK(Fault(kIncomingPlan, "peak 11", "peak 8") == "totals");
  CHECK(Fault(kIncomingPlan, " incoming 8 3", "") == "totals");
}

TEST_CASE("no action of a plan runs on the stream of the incoming batch") {
  CHECK(FaultAfter(PlanFromScript(kTransferPlan), [](Plan& plan) {
          for (Action& action : plan.actions) {
            if (auto* wait = std::get_if<WaitAction>(&action)) wait->stream = Stream::kInput;
          }
        }) == "bad-wait");
}

}  // namespace
}  // namespace neap

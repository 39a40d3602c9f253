// Plans that pause after forward: what the verifier proves of them, and refuses.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <variant>

#include "neap/core/program/passes.h"
#include "neap/memory/planner.h"
#include "neap/memory/policies/policies.h"
#include "tests/core/verifier/verdict.h"
#include "tests/given_gradients.h"
#include "tests/small_net.h"

namespace neap {
namespace {

size_t PauseOf(const Plan& plan) {
  const auto is_pause = [&](const Action& action) {
    const auto* const compute = std::get_if<ComputeAction>(&action);
    return compute != nullptr && plan.steps[compute->step.index()].phase == Phase::kPause;
  };
  return static_cast<size_t>(std::find_if(plan.actions.begin(), plan.actions.end(), is_pause) -
                             plan.actions.begin());
}

TEST_CASE("a plan that pauses is proven, with the gradient in other bytes or in the output's") {
  CHECK(Verdict(kPausePlan) == "");
  const std::string in_place =
      Edited(Edited(kPausePlan, "peak 7 activations 2048", "peak 7 activations 1024"), "alloc dy 5",
             "alloc dy 4");
  CHECK(Verdict(in_place) == "");
  CHECK(Verdict(kResidentPausePlan) == "");
}

TEST_CASE("the step that pauses is never run again") {
  CHECK(FaultAfter(PlanFromScript(kPausePlan), [](Plan& plan) {
          plan.actions.insert(plan.actions.begin() + static_cast<int>(PauseOf(plan)) + 1,
                              ComputeAction{.step = StepId(1), .recompute = true});
        }) == "recompute");
}

TEST_CASE("an output that is lost or overwritten before the pause is refused") {
  CHECK(Fault(kPausePlan, "alloc dy 5", "free y\n  alloc dy 5") == "not-allocated");
  CHECK(Fault(kPausePlan, "alloc dy 5", "free y\n  alloc y 4\n  alloc dy 5") == "no-value");
  CHECK(Fault(kPausePlan, "alloc dy 5", "alloc dw 4") == "overlap");
  // A copy back may not write where the output lies before the pause has read it.
  const std::string copied =
      Edited(Edited(kPausePlan, "host 0", "host 2 host_pool 2"), "run fc forward",
             "out: offload x 0\n  first: run fc forward\n  wait compute out\n  free x");
  CHECK(FaultOf(Verify(PlanFromScript(Edited(
            copied, "alloc dy 5", "free y\n  alloc x 4\n  prefetch x\n  alloc dy 6")))) == "race");
}

TEST_CASE("a gradient that is read before the pause is refused") {
  const std::string early =
      Edited(Edited(kPausePlan,
                    "step caller pause reads y writes dy in_place dy/y\n"
                    "  step fc backward_params reads x dy writes dw",
                    "step fc backward_params reads x dy writes dw\n"
                    "  step caller pause reads y writes dy in_place dy/y"),
             "run caller pause\n  free y\n  alloc dw 6\n  run fc backward_params",
             "alloc dw 6\n  run fc backward_params\n  run caller pause\n  free y");
  CHECK(FaultOf(Verify(PlanFromScript(early))) == "no-value");
  CHECK(Fault(kPausePlan, "free y\n  alloc dw 6",
              "free y\n  free dy\n  alloc dy 5\n  alloc dw 6") == "no-value");
}

TEST_CASE("an iteration that could not be given up at its pause is refused") {
  const std::string moved = Edited(Edited(kPausePlan, "host 0", "host 1 host_pool 1"), "alloc dy 5",
                                   "offload w 0\n  free w\n  alloc dy 5");
  CHECK(Verify(PlanFromScript(moved)).message() ==
        "plan fault [pause]: action 8 (compute step 1 'caller pause'): tensor 0 'w' is, at the "
        "pause, outside the arena");
  const std::string late =
      Edited(Edited(kResidentPausePlan, "wait d2h forward\n  offload m 0\n  free m\n", ""),
             "run fc backward_data",
             "wait d2h forward\n  offload m 0\n  free m\n"
             "  run fc backward_data");
  CHECK(FaultOf(Verify(PlanFromScript(late))) == "pause");
}

TEST_CASE("a pause that does more than hand out outputs and take gradients is refused") {
  CHECK(Fault(kPausePlan, "run caller pause", "run caller pause workspace 7 1") == "pause");
  CHECK(Fault(kPausePlan, "run caller pause", "run caller pause engines a:2 b:2") == "pause");
  CHECK(Fault(kPausePlan, "tensor dy gradient", "tensor dy activation") == "pause");
  CHECK(Fault(kPausePlan, "pause reads y writes dy in_place dy/y", "pause writes dy") == "pause");
  CHECK(Fault(kPausePlan, "pause reads y writes dy in_place dy/y", "pause reads y") == "pause");
  CHECK(Fault(kPausePlan, "in_place dy/y", "accumulates m") == "pause");
  CHECK(FaultAfter(PlanFromScript(kPausePlan), [](Plan& plan) {
          plan.steps[2].phase = Phase::kPause;
          plan.steps[2].writes = plan.steps[1].writes;
        }) == "pause");
  CHECK(FaultAfter(PlanFromScript(kPausePlan), [](Plan& plan) {
          plan.sub_batches = 2;
          for (PlanStep& step : plan.steps) step.layer += "[1/2]";
        }) == "pause");
}

TEST_CASE("every policy plans a network that pauses, and its plan is read back from its JSON") {
  const auto device = OpenCpu();
  const Graph net = testing::GivenLosses(SmallNet()).net();
  const Program program = Lower(net, {}, device->description()).value();
  CHECK(program.Pauses());
  for (const Policy& policy : Policies()) {
    CAPTURE(policy.name);
    const PlanResult planned = PlannerFor({.policy = std::string(policy.name)})
                                   ->Plan(program, {}, device->description(), device->backend())
                                   .value();
    CHECK(Verify(planned.plan).message() == "");
    CHECK(MatchesProgram(planned.plan, program).message() == "");
    CHECK(Plan::FromJson(planned.plan.ToJson()).value() == planned.plan);
    // The gradient takes the bytes of the output, which nothing else reads.
    const Port& output = program.outputs.at(0);
    const auto& actions = planned.plan.actions;
    const auto place_of = [&](TensorId tensor) {
      const auto found = std::find_if(actions.rbegin(), actions.rend(), [&](const Action& action) {
        const auto* const alloc = std::get_if<AllocAction>(&action);
        return alloc != nullptr && alloc->tensor == tensor;
      });
      return std::get<AllocAction>(*found).region.offset;
    };
    CHECK(place_of(output.parts.at(0)) == place_of(*output.gradient));
    // The program of the network with its loss is another one.
    const Program other = Lower(SmallNet(), {}, device->description()).value();
    CHECK(FaultOf(MatchesProgram(planned.plan, other)) == "wrong-program");
  }
}

TEST_CASE("a plan that pauses has no bytes for the batch after it, which is not known yet") {
  const auto cpu = OpenCpu();
  DeviceDescription device = cpu->description();
  device.has_own_memory = true;
  for (const bool gives : {false, true}) {
    const Graph net = gives ? testing::GivenLosses(SmallNet()).net() : SmallNet();
    const Program program = Lower(net, {}, device).value();
    const Plan plan = PlannerFor({})->Plan(program, {}, device, cpu->backend()).value().plan;
    CHECK(plan.incoming_batch.has_value() == !gives);
  }
}

}  // namespace
}  // namespace neap

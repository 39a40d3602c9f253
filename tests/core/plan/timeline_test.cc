#include "neap/core/plan/timeline.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "neap/core/plan/cost_model.h"
#include "neap/core/program/program.h"
#include "neap/layers/catalog/default_catalog.h"
#include "neap/layers/devices/device_description.h"
#include "neap/memory/planner.h"
#include "neap/nets/residual/resnet.h"
#include "tests/plan_script.h"

namespace neap {
namespace {

// 1 s for a step, 2 s for a recomputation, 1 KiB per second out and 2 KiB in. Drawings: one
// character for a second.
TimelineCosts Seconds(const Plan& plan) {
  return {.compute_seconds = SecondsEach(plan, 1, 2),
          .d2h_bytes_per_second = 1024,
          .h2d_bytes_per_second = 2048};
}

// "f1 forward 0-1", in seconds; nothing for what takes no time.
std::vector<std::string> Spans(const Plan& plan, const Timeline& timeline) {
  std::vector<std::string> spans;
  for (size_t i = 0; i < plan.actions.size(); ++i) {
    std::string name;
    if (const auto* compute = std::get_if<ComputeAction>(&plan.actions[i])) {
      const PlanStep& step = plan.steps[compute->step.index()];
      name =
          (compute->recompute ? "again " : "") + step.layer + " " + std::string(Name(step.phase));
    } else if (const auto* offload = std::get_if<OffloadAction>(&plan.actions[i])) {
      name = "offload " + plan.tensors[offload->tensor.index()].name;
    } else if (const auto* prefetch = std::get_if<PrefetchAction>(&plan.actions[i])) {
      name = "prefetch " + plan.tensors[prefetch->tensor.index()].name;
    } else {
      CHECK(timeline.actions[i].elapsed_us() == 0);
      continue;
    }
    const auto seconds = [](double us) { return std::to_string(std::lround(us / 1e6)); };
    spans.push_back(name + " " + seconds(timeline.actions[i].begin_us) + "-" +
                    seconds(timeline.actions[i].end_us));
  }
  return spans;
}

using Strings = std::vector<std::string>;

//   compute |f1|f2|  .  |f3|f3'|  .|f2'|     f3 waits for the offload, f2' for the prefetch
//   d2h        |offload |
//   h2d                        |pre|
TEST_CASE("a wait holds its stream back until the other has finished") {
  const Plan plan = PlanFromScript(kTransferPlan);
  const Timeline timeline = PredictTimeline(plan, Seconds(plan));
  CHECK(Spans(plan, timeline) == Strings{"f1 forward 0-1", "offload a 1-3", "f2 forward 1-2",
                                         "f3 forward 3-4", "f3 backward_data 4-5", "prefetch a 5-6",
                                         "f2 backward_params 6-7"});
  CHECK(timeline.total_us == doctest::Approx(7e6));
  CHECK(timeline.busy_us[0] == doctest::Approx(5e6));
  CHECK(timeline.busy_us[1] == doctest::Approx(2e6));
  CHECK(timeline.busy_us[2] == doctest::Approx(1e6));
  REQUIRE(timeline.stalls.size() == 2);
  CHECK(std::holds_alternative<OffloadAction>(plan.actions[timeline.stalls[0].on]));
  CHECK(timeline.stalls[0].begin_us == doctest::Approx(2e6));
  CHECK(timeline.stalls[0].end_us == doctest::Approx(3e6));
  CHECK(std::holds_alternative<PrefetchAction>(plan.actions[timeline.stalls[1].on]));
  CHECK(std::holds_alternative<WaitAction>(plan.actions[timeline.stalls[1].wait]));
  CHECK(timeline.stalls[1].end_us == doctest::Approx(6e6));
}

//   compute |f1|f2|f3|f3'|f2'|     without waits the offload runs from the beginning
//   d2h     |offload |
//   h2d     |p|
TEST_CASE("without waits every stream runs on") {
  Plan plan = PlanFromScript(kTransferPlan);
  std::erase_if(plan.actions,
                [](const Action& a) { return std::holds_alternative<WaitAction>(a); });
  const Timeline timeline = PredictTimeline(plan, Seconds(plan));
  CHECK(Spans(plan, timeline) == Strings{"f1 forward 0-1", "offload a 0-2", "f2 forward 1-2",
                                         "f3 forward 2-3", "f3 backward_data 3-4", "prefetch a 0-1",
                                         "f2 backward_params 4-5"});
  CHECK(timeline.total_us == doctest::Approx(5e6));
}

//   compute |f1|f2|    .     |f3|f3'|     .    |f2'|    three seconds of latency for each transfer
//   d2h        |   offload   |
//   h2d                             | prefetch |
TEST_CASE("every transfer has its latency") {
  const Plan plan = PlanFromScript(kTransferPlan);
  TimelineCosts costs = Seconds(plan);
  costs.transfer_latency_seconds = 3;
  const Timeline timeline = PredictTimeline(plan, costs);
  CHECK(timeline.total_us == doctest::Approx(13e6));
  CHECK(timeline.busy_us[1] == doctest::Approx(5e6));
  CHECK(timeline.busy_us[2] == doctest::Approx(4e6));
}

//   compute |f1|f2|f3|f3'|f2'|
//   d2h        |                unknown bandwidth: no time
TEST_CASE("an unknown bandwidth of zero takes no time") {
  const Plan plan = PlanFromScript(kTransferPlan);
  TimelineCosts costs = Seconds(plan);
  costs.d2h_bytes_per_second = costs.h2d_bytes_per_second = 0;
  CHECK(PredictTimeline(plan, costs).total_us == doctest::Approx(5e6));
}

//   compute |f1|f2|f3|f3'|f2'|
//   d2h        ||              4 KiB per second to the peer, and back
//   h2d               | |
TEST_CASE("copies to a peer and back take its link's time") {
  const Plan plan = PlanFromScript(
      Edited(Edited(kTransferPlan, "host 2", "peer 2 peer_pool 2"), "offload a", "offload a peer"));
  TimelineCosts costs = Seconds(plan);
  costs.peer_bytes_per_second = 4096;
  const Timeline timeline = PredictTimeline(plan, costs);
  CHECK(timeline.busy_us[1] == doctest::Approx(0.5e6));
  CHECK(timeline.busy_us[2] == doctest::Approx(0.5e6));
  CHECK(timeline.total_us == doctest::Approx(5.5e6));
}

TEST_CASE("the batch's copy takes its link's time, and is not part of the timeline") {
  const Plan plan = PlanFromScript(
      Edited(kTransferPlan, "tensor m state 4", "tensor m state 4\n  tensor l label 512"));
  TimelineCosts costs = Seconds(plan);
  CHECK(BatchCopySeconds(plan, costs) == (1024 + 512) / 2048.0);
  costs.transfer_latency_seconds = 1;
  CHECK(BatchCopySeconds(plan, costs) == 2.75);
  CHECK(BatchCopySeconds(plan, {}) == 0);
}

//   compute  |within|iteration|     |within|     the copy from the host takes time only where the
//   input           |next batch ->  |            iteration does not hide it
TEST_CASE(
    "an incoming batch adds its copy within the device, and what is not hidden of the other") {
  Plan plan = PlanFromScript(Edited(kTransferPlan, "host 2 ", "host 2 incoming 6 1 "));
  TimelineCosts costs = Seconds(plan);
  CHECK(BatchFromHostSeconds(plan, costs) == 0.5);
  plan.predicted_ms = 10e3;
  CHECK(BatchCopySeconds(plan, costs) == 0);
  costs.device_bytes_per_second = 8192;  // for the copy within the device, read and written
  CHECK(BatchCopySeconds(plan, costs) == 0.25);
  plan.predicted_ms = 0.125e3;
  CHECK(BatchCopySeconds(plan, costs) == 0.25 + 0.375);
  plan.incoming_batch.reset();
  CHECK(BatchCopySeconds(plan, costs) == 0.5);
}

//   compute |bn|f|f'|bn again|f'p|
TEST_CASE("a recomputation has its own time") {
  const Plan plan = PlanFromScript(kRecomputePlan);
  CHECK(Spans(plan, PredictTimeline(plan, Seconds(plan))) ==
        Strings{"bn forward 0-1", "f forward 1-2", "f backward_data 2-3", "again bn forward 3-5",
                "f backward_params 5-6"});
}

//   compute |big|          total is the end of the last stream, not of compute
//   d2h         |offload  |
TEST_CASE("an iteration is over when every stream is") {
  const Plan plan = PlanFromScript(R"(
    batch 1 budget 4 arena 4 peak 4 activations 4096 host 4 host_pool 4
    tensor a activation 4096
    step big forward writes a
    alloc a 0
    made: run big forward
    wait d2h made
    offload a 0
    free a
  )");
  const Timeline timeline = PredictTimeline(plan, Seconds(plan));
  CHECK(timeline.total_us == doctest::Approx(5e6));
  CHECK(timeline.actions.back().begin_us == doctest::Approx(1e6));
}

//   compute |big|next ~|last~|       ~ what the offload takes from them: half of its time
//   d2h         |offload    |
TEST_CASE("steps take longer while a copy runs") {
  const Plan plan = PlanFromScript(R"(
    batch 1 budget 4 arena 12 peak 12 activations 12288 host 4 host_pool 4
    tensor a activation 4096
    tensor b activation 4096
    tensor c activation 4096
    step big forward writes a
    step next forward writes b
    step last forward writes c
    alloc a 0
    made: run big forward
    wait d2h made
    offload a 0
    alloc b 4
    run next forward
    alloc c 8
    run last forward
    free a
    free b
    free c
  )");
  TimelineCosts costs = Seconds(plan);
  costs.compute_seconds = {1, 2, 1};
  costs.slowdown_by_offloads = 0.5;
  // The offload runs from 1 to 5, `next` from 1 to 4 and `last` from 4 to 5.5.
  const Timeline timeline = PredictTimeline(plan, costs);
  CHECK(timeline.total_us == doctest::Approx(5.5e6));
  CHECK(timeline.busy_us[0] == doctest::Approx(5.5e6));
}

//   compute |big|second|      |next~~|      ~ what two copies take from it: a half and a quarter
//   d2h         |offload a    |offload b    |
//   h2d                       |back a|
TEST_CASE("a step takes longer for the copies of each direction that run beside it") {
  const Plan plan = PlanFromScript(R"(
    batch 1 budget 4 arena 12 peak 12 activations 12288 host 8 host_pool 8
    tensor a activation 4096
    tensor b activation 4096
    tensor c activation 4096
    step big forward writes a
    step second forward writes b
    step next forward writes c
    alloc a 0
    made: run big forward
    alloc b 4
    run second forward
    wait d2h made
    out: offload a 0
    free a
    offload b 4
    free b
    alloc a 0
    wait h2d out
    prefetch a
    alloc c 8
    wait compute out
    run next forward
    free c
    free a
  )");
  TimelineCosts costs = Seconds(plan);
  costs.slowdown_by_offloads = 0.5;
  costs.slowdown_by_prefetches = 0.25;
  // `second` was issued before the first offload, beside which it runs; `next` begins at 5, beside
  // an offload that ends at 7.
  CHECK(PredictTimeline(plan, costs).busy_us[0] == doctest::Approx(1e6 + 1e6 + 1.75e6));
  costs.slowdown_by_offloads = 0;
  CHECK(PredictTimeline(plan, costs).busy_us[0] == doctest::Approx(1e6 + 1e6 + 1.25e6));
}

//   compute    |first|short~~~~|long ~  |
//   collective       |  sum of g    |
TEST_CASE("a sum over ranks slows steps down, short ones more") {
  const Plan plan = PlanFromScript(R"(
    batch 1 budget 3 arena 12 peak 12 activations 8192
    tensor g param_grad 4096
    tensor a activation 4096
    tensor b activation 4096
    step first backward_params writes g
    step first all_reduce accumulates g
    step short forward writes a
    step long forward writes b
    alloc g 0
    made: run first backward_params
    wait collective made
    summed: sum first
    alloc a 4
    run short forward
    alloc b 8
    run long forward
    wait compute summed
    free a
    free b
    free g
  )");
  TimelineCosts costs = Seconds(plan);
  costs.compute_seconds = {1, 1, 4};
  costs.collective_latency_seconds = 3;
  costs.slowdown_by_sums = 0.25;
  costs.collective_interference_seconds = 0.5;
  costs.collective_bytes_per_second = 0;
  // `short` takes 1 s, all of it beneath the sum: 0.25 + 0.5^2 longer. `long` then has 1.5 s of it.
  const Timeline timeline = PredictTimeline(plan, costs);
  CHECK(timeline.busy_us[0] == doctest::Approx(1e6 * (1 + 1.5 + 4 + 1.5 * (0.25 + 0.125 * 0.125))));
  costs.collective_interference_seconds = 5;
  CHECK(PredictTimeline(plan, costs).busy_us[0] == doctest::Approx(1e6 * (1 + 2 + 4 + 1)));
}

// Measured: f1 0-1, f2 2-3 (late for no known reason), f3 5-6, f3' 6-8, f2' 10-11; a out 1-4, in
// 7-9.
//
//   compute |f1|  |f2|     |f3| f3' |     |f2'|
//   d2h        | offload|
//   h2d                           |prefetch|
std::vector<ActionTime> MeasuredOfTransferPlan(const Plan& plan) {
  const std::vector<ActionTime> compute = {{0, 1}, {2, 3}, {5, 6}, {6, 8}, {10, 11}};
  std::vector<ActionTime> ran(plan.actions.size());
  size_t next = 0;
  for (size_t i = 0; i < plan.actions.size(); ++i) {
    const Action& action = plan.actions[i];
    if (std::holds_alternative<ComputeAction>(action)) ran[i] = compute.at(next++);
    if (std::holds_alternative<OffloadAction>(action)) ran[i] = {1, 4};
    if (std::holds_alternative<PrefetchAction>(action)) ran[i] = {7, 9};
    ran[i].begin_us *= 1e6;
    ran[i].end_us *= 1e6;
  }
  return ran;
}

TEST_CASE("a measured timeline has the times that were measured, and stalls only for transfers") {
  const Plan plan = PlanFromScript(kTransferPlan);
  const Timeline timeline = MeasuredTimeline(plan, MeasuredOfTransferPlan(plan));
  CHECK(Spans(plan, timeline) == Strings{"f1 forward 0-1", "offload a 1-4", "f2 forward 2-3",
                                         "f3 forward 5-6", "f3 backward_data 6-8", "prefetch a 7-9",
                                         "f2 backward_params 10-11"});
  CHECK(timeline.total_us == 11e6);
  CHECK(timeline.busy_us == std::array<double, kStreamCount>{6e6, 3e6, 2e6});
  REQUIRE(timeline.stalls.size() == 2);
  CHECK(timeline.stalls[0].begin_us == 3e6);  // f2's end to the offload's; f3 was later still
  CHECK(timeline.stalls[0].end_us == 4e6);
  CHECK(timeline.stalls[1].begin_us == 8e6);
  CHECK(timeline.stalls[1].end_us == 9e6);
}

TEST_CASE("overlap is the time of copies behind computation, and of copies both ways") {
  const Plan plan = PlanFromScript(kTransferPlan);
  std::vector<ActionTime> ran = MeasuredOfTransferPlan(plan);
  Overlap overlap = FindOverlap(plan, MeasuredTimeline(plan, ran));
  CHECK(overlap.copying_us == 5e6);
  CHECK(overlap.hidden_us == 2e6);  // 2-3 and 7-8
  CHECK(overlap.both_ways_us == 0);
  for (size_t i = 0; i < ran.size(); ++i) {
    if (std::holds_alternative<PrefetchAction>(plan.actions[i])) ran[i] = {2.5e6, 9e6};
  }
  overlap = FindOverlap(plan, MeasuredTimeline(plan, ran));
  CHECK(overlap.copying_us == 8e6);
  CHECK(overlap.hidden_us == 4e6);
  CHECK(overlap.both_ways_us == 1.5e6);
  CHECK(overlap.hidden_both_ways_us == 0.5e6);
}

TEST_CASE("without transfers nothing overlaps") {
  const Plan plan = PlanFromScript(kRecomputePlan);
  const Overlap overlap = FindOverlap(plan, PredictTimeline(plan, Seconds(plan)));
  CHECK(overlap.copying_us == 0);
  CHECK(overlap.both_ways_us == 0);
}

TEST_CASE("an empty plan takes no time") {
  const Timeline timeline = PredictTimeline(Plan{}, {});
  CHECK(timeline.actions.empty());
  CHECK(timeline.total_us == 0);
}

TEST_CASE("predicted costs: applying a batch-norm again is cheaper than computing its statistics") {
  const absl::StatusOr<Program> program =
      BuildProgram(nets::CifarResNet({.n = 1, .image = 8, .batch = 4}), {});
  REQUIRE(program.ok());
  const DeviceDescription h200 = DescribedDevice("h200").value();
  DefaultCatalog catalog;
  const TimelineCosts costs = MakePlan(*program, {}, h200, catalog)->costs;
  CHECK(costs.d2h_bytes_per_second == h200.copy_bandwidth);
  REQUIRE(costs.compute_seconds.size() == program->steps.size());
  int cheaper = 0;
  for (const Step& step : program->steps) {
    const size_t i = step.id.index();
    const double seconds = PredictSeconds(*program, step, h200);
    CAPTURE(program->StepName(step));
    CHECK(std::abs(costs.compute_seconds[i] - seconds) < 1e-12);  // whole picoseconds
    if (step.phase != Phase::kForward) continue;
    const double again = PredictSeconds(*program, step, h200, /*rerun=*/true);
    CHECK(again <= seconds);
    cheaper += !step.rerun_reads.empty() && again < seconds;
  }
  CHECK(cheaper > 0);
}

}  // namespace
}  // namespace neap

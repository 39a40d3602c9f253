#include "neap/recompute/recompute.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "neap/recompute/layerwise_bound.h"
#include "neap/recompute/rerun_order.h"
#include "neap/recompute/segments.h"
#include "tests/random_graph.h"
#include "tests/recompute/one_segment.h"

namespace neap {
namespace {

using testing::OneSegment;

RunOrder Even(const Program& program) {
  return {.runs = OrderReruns(program, EvenSegments(program), RerunMode::kSpeedCentric)};
}

TEST_CASE("without recomputation, and in inference, every step runs once in program order") {
  const Program program = OneSegment(3);
  CHECK(WithoutReruns(program).runs == ProgramOrder(program));
  const Program inference =
      BuildProgram(testing::RandomGraph(3), {.mode = Mode::kInference}).value();
  for (const auto order : {SpeedCentric, MemoryCentric, CostAware, Even})
    CHECK(order(inference).runs == ProgramOrder(inference));
}

// Whether every run finds what it reads: what is dropped is there if it was rebuilt since.
void CheckSequence(const Program& program, const Segments& segments, const ComputeSequence& runs) {
  size_t next = 0;
  for (const Run& run : runs) {
    if (!run.recompute) REQUIRE(run.step.index() == next++);
  }
  REQUIRE(next == program.steps.size());
  const std::vector<RunUsage> usage =
      UsagePerRun(program, FindLiveness(program, runs, /*in_place=*/true));
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i].recompute) continue;
    REQUIRE(segments.of_step[runs[i].step.index()].has_value());
    const auto later = std::find_if(runs.begin() + static_cast<std::ptrdiff_t>(i), runs.end(),
                                    [](const Run& run) { return !run.recompute; });
    REQUIRE(later != runs.end());
    REQUIRE(program.steps[later->step.index()].phase != Phase::kForward);
  }
}

TEST_CASE(
    "random networks: every step runs once in order, reruns come right before backward steps") {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    for (const Accounting accounting : {Accounting::kExact, Accounting::kPaper}) {
      const Program program =
          BuildProgram(testing::RandomGraph(seed), {.accounting = accounting}).value();
      const Segments segments = CheckpointSegments(program);
      const ComputeSequence speed = SpeedCentric(program).runs;
      const ComputeSequence memory = MemoryCentric(program).runs;
      const ComputeSequence aware = CostAware(program).runs;
      for (const ComputeSequence* runs : {&speed, &memory, &aware})
        CheckSequence(program, segments, *runs);
      const Segments even = EvenSegments(program);
      CheckSequence(program, even, OrderReruns(program, even, RerunMode::kSpeedCentric));
      REQUIRE(ExtraForwards(speed) <= ExtraForwards(aware));
      REQUIRE(ExtraForwards(aware) <= ExtraForwards(memory));
    }
  }
}

TEST_CASE("random networks: a rerun makes something that is read before it dies") {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    const Program program =
        BuildProgram(testing::RandomGraph(seed, {.ports = seed % 2 == 1}), {}).value();
    for (const auto order : {SpeedCentric, MemoryCentric, CostAware, Even}) {
      const ComputeSequence runs = order(program).runs;
      std::vector<bool> is_read(runs.size(), false);
      for (const Lifetime& life : Lifetimes(program, runs)) {
        if (life.uses.size() > 1) is_read[static_cast<size_t>(life.begin)] = true;
      }
      for (size_t i = 0; i < runs.size(); ++i) {
        if (runs[i].recompute) REQUIRE(is_read[i]);
      }
    }
  }
}

}  // namespace
}  // namespace neap

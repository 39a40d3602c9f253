#include "neap/recompute/live_sweep.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "neap/core/program/liveness.h"
#include "neap/core/program/passes.h"
#include "neap/layers/devices/device_description.h"
#include "neap/recompute/recompute.h"
#include "neap/recompute/rerun_order.h"
#include "neap/recompute/segments.h"
#include "tests/random_graph.h"

namespace neap {
namespace {

std::vector<ComputeSequence> SequencesOf(const Program& program) {
  std::vector<ComputeSequence> sequences = {ProgramOrder(program), CostAware(program).runs};
  const Segments segments = CheckpointSegments(program);
  for (RerunMode mode : {RerunMode::kSpeedCentric, RerunMode::kMemoryCentric, RerunMode::kOnDemand})
    sequences.push_back(OrderReruns(program, segments, mode));
  return sequences;
}

// By position, from the definition. A life in place begins one position late.
std::vector<int64_t> LiveBytes(const Program& program, const ComputeSequence& runs, bool in_place) {
  const Liveness liveness = FindLiveness(program, runs, in_place);
  std::vector<int64_t> live(runs.size(), 0);
  for (size_t i = 0; i < liveness.lives.size(); ++i) {
    const Lifetime& life = liveness.lives[i];
    const Tensor& tensor = program.tensor(life.tensor);
    if (IsPersistent(tensor.role)) continue;
    for (int at = life.begin + (liveness.replaces[i].has_value() ? 1 : 0); at < life.end; ++at)
      live[static_cast<size_t>(at)] += tensor.spec.size_bytes();
  }
  return live;
}

TEST_CASE("random networks: live bytes are those of the lifetimes, with and without in place") {
  int replaced = 0;
  for (uint32_t seed = 0; seed < testing::RandomSeeds(60); ++seed) {
    CAPTURE(seed);
    const ProgramOptions options = {.mode = seed % 5 == 0 ? Mode::kInference : Mode::kTraining};
    const Program program =
        Lower(testing::RandomGraph(seed, {.residual = seed % 3 == 0, .ports = seed % 2 == 1}),
              options, DescribedDevice("h200").value())
            .value();
    for (bool in_place : {false, true}) {
      LiveSweep sweep(program, in_place);
      for (const ComputeSequence& runs : SequencesOf(program)) {
        sweep.Walk(runs, std::vector<bool>(program.tensors.size(), false));
        const std::vector<int64_t> want = LiveBytes(program, runs, in_place);
        REQUIRE(sweep.changes().size() == runs.size() + 1);
        REQUIRE(sweep.absences().empty());
        int64_t live = 0;
        for (size_t i = 0; i < runs.size(); ++i) REQUIRE((live += sweep.changes()[i]) == want[i]);
        replaced += in_place && want != LiveBytes(program, runs, false);
      }
    }
  }
  CHECK(replaced > 0);
}

TEST_CASE("random networks: absences lie between the last use in forward and the next one") {
  int found = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    const Program program =
        Lower(testing::RandomGraph(seed, {}), {}, DescribedDevice("h200").value()).value();
    const ComputeSequence runs = CostAware(program).runs;
    const Segments segments = NothingDropped(program);
    std::vector<bool> moved(program.tensors.size(), false);
    std::multiset<std::vector<int64_t>> want;  // bytes, complete, begin, end
    for (const Lifetime& life : Lifetimes(program, runs)) {
      const size_t tensor = life.tensor.index();
      const bool is_result = segments.producer[tensor].has_value() && segments.in_backward[tensor];
      if (!is_result || runs[static_cast<size_t>(life.begin)].recompute) continue;
      moved[tensor] = true;
      const auto after = std::find_if(life.uses.begin(), life.uses.end(), [&](int use) {
        const auto& [step, recompute] = runs[static_cast<size_t>(use)];
        return recompute || program.steps[step.index()].phase != Phase::kForward;
      });
      const int end = after == life.uses.end() ? 0 : *after;
      want.insert(
          {program.tensor(life.tensor).spec.size_bytes(), life.begin + 1, *(after - 1) + 1, end});
    }
    LiveSweep sweep(program, /*in_place=*/true);
    sweep.Walk(runs, moved);
    std::multiset<std::vector<int64_t>> got;
    for (const Absence& absence : sweep.absences())
      got.insert({absence.bytes, absence.complete, absence.begin, absence.end});
    REQUIRE(got == want);
    found += static_cast<int>(got.size());
  }
  CHECK(found > 100);
}

}  // namespace
}  // namespace neap

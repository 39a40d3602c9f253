#include "neap/recompute/spared_reruns.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "neap/core/device/device_description.h"
#include "neap/core/program/passes.h"
#include "neap/recompute/recompute.h"
#include "tests/random_graph.h"
#include "tests/recompute/one_segment.h"
#include "tests/recompute/runs.h"

namespace neap {
namespace {

// The last rerun of a step that was rerun before.
std::optional<size_t> LastRepeated(const Program& program, const ComputeSequence& runs) {
  std::vector<int> reruns(program.steps.size(), 0);
  for (const Run& run : runs) reruns[run.step.index()] += run.recompute ? 1 : 0;
  for (size_t i = runs.size(); i-- > 0;) {
    if (runs[i].recompute && reruns[runs[i].step.index()] > 1) return i;
  }
  return std::nullopt;
}

// Whether every run reads what an earlier one has written, or what is given.
bool ReadsWhatIsThere(const Program& program, const ComputeSequence& runs) {
  std::vector<bool> written(program.tensors.size(), false);
  for (const Run& run : runs) {
    for (TensorId read : RunReads(program, run)) {
      if (!IsGiven(program.tensor(read).role) && !written[read.index()]) return false;
    }
    for (TensorId tensor : RunWrites(program, run)) written[tensor.index()] = true;
  }
  return true;
}

}  // namespace

TEST_CASE("a rerun is spared, with those that only led to it") {
  const Program program = testing::OneSegment(3);
  const SparedReruns spared(program);
  ComputeSequence runs = MemoryCentric(program).runs;
  CHECK(testing::BackwardOf(program, runs) ==
        "loss' lrn1* lrn2* lrn3* conv2' lrn1* lrn2* lrn3' lrn1* lrn2' lrn1' conv1'");
  const auto text_without_last = [&] {
    runs = spared.Without(runs, LastRepeated(program, runs).value());
    return testing::BackwardOf(program, runs);
  };
  CHECK(text_without_last() ==
        "loss' lrn1* lrn2* lrn3* conv2' lrn1* lrn2* lrn3' lrn2' lrn1' conv1'");
  CHECK(text_without_last() == "loss' lrn1* lrn2* lrn3* conv2' lrn1* lrn3' lrn2' lrn1' conv1'");
  CHECK(text_without_last() == "loss' lrn1* lrn2* lrn3* conv2' lrn3' lrn2' lrn1' conv1'");
  CHECK(!LastRepeated(program, runs).has_value());
}

TEST_CASE("random networks: without repeated reruns every run still has its operands") {
  int spared_runs = 0;
  for (uint32_t seed = 0; seed < testing::RandomSeeds(100); ++seed) {
    CAPTURE(seed);
    const Program program = Lower(testing::RandomGraph(seed, {.residual = seed % 3 == 0}), {},
                                  DescribedDevice("h200").value())
                                .value();
    const SparedReruns spared(program);
    ComputeSequence runs = MemoryCentric(program).runs;
    while (const std::optional<size_t> last = LastRepeated(program, runs)) {
      const size_t before = runs.size();
      runs = spared.Without(runs, *last);
      CHECK(runs.size() < before);
      spared_runs += static_cast<int>(before - runs.size());
      CHECK(ReadsWhatIsThere(program, runs));
    }
  }
  CHECK(spared_runs > 0);
}

}  // namespace neap

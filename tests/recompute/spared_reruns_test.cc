#include "neap/recompute/spared_reruns.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "neap/core/program/passes.h"
#include "neap/layers/devices/device_description.h"
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

// Whether a rerun wrote, last, what the backward step reads; for all reads of all backward steps.
std::vector<bool> ReadsOfReruns(const Program& program, const ComputeSequence& runs) {
  std::vector<bool> is_of_rerun(program.tensors.size(), false), reads;
  for (const Run& run : runs) {
    const bool in_backward = program.steps[run.step.index()].phase != Phase::kForward;
    for (TensorId read : RunReads(program, run)) {
      if (in_backward) reads.push_back(is_of_rerun[read.index()]);
    }
    for (TensorId written : RunWrites(program, run)) is_of_rerun[written.index()] = run.recompute;
  }
  return reads;
}

// Whether something reads a result of each rerun before the step runs again.
bool AllAreRead(const Program& program, const ComputeSequence& runs) {
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i].recompute) continue;
    const std::vector<TensorId> written = RunWrites(program, runs[i]);
    bool is_read = false;
    for (size_t j = i + 1; j < runs.size() && !is_read && runs[j].step != runs[i].step; ++j) {
      for (TensorId read : RunReads(program, runs[j]))
        is_read = is_read || std::count(written.begin(), written.end(), read) > 0;
    }
    if (!is_read) return false;
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

TEST_CASE(
    "random networks: without repeated reruns backward reads the same, and nothing is rerun in "
    "vain") {
  int spared_runs = 0;
  for (uint32_t seed = 0; seed < testing::RandomSeeds(100); ++seed) {
    CAPTURE(seed);
    const Program program = Lower(testing::RandomGraph(seed, {.residual = seed % 3 == 0}), {},
                                  DescribedDevice("h200").value())
                                .value();
    const SparedReruns spared(program);
    ComputeSequence runs = MemoryCentric(program).runs;
    const std::vector<bool> reads = ReadsOfReruns(program, runs);
    while (const std::optional<size_t> last = LastRepeated(program, runs)) {
      const ComputeSequence behind(runs.begin() + static_cast<ptrdiff_t>(*last) + 1, runs.end());
      const size_t before = runs.size();
      runs = spared.Without(runs, *last);
      REQUIRE(runs.size() < before);
      spared_runs += static_cast<int>(before - runs.size());
      CHECK(std::equal(behind.rbegin(), behind.rend(), runs.rbegin()));
      CHECK(ReadsOfReruns(program, runs) == reads);
      CHECK(AllAreRead(program, runs));
    }
  }
  CHECK(spared_runs > 0);
}

}  // namespace neap

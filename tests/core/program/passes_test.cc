#include "neap/core/program/passes.h"

#include <doctest/doctest.h>

#include "neap/core/device/device_description.h"
#include "tests/random_graph.h"
#include "tests/small_training.h"

namespace neap {

TEST_CASE("without passes, a program is as it was built, for every device") {
  const DeviceDescription h200 = DescribedDevice("h200").value();
  for (uint32_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    const Graph graph = testing::RandomGraph(seed);
    for (const Mode mode : {Mode::kTraining, Mode::kInference}) {
      const Program built = BuildProgram(graph, {.mode = mode}).value();
      CHECK(Lower(graph, {.mode = mode}, h200).value() == built);
      CHECK(Lower(graph, {.mode = mode}, {}).value() == built);
    }
  }
}

TEST_CASE("a part of a lowered network is lowered, or refused for a tensor that the whole lacks") {
  const DeviceDescription h200 = DescribedDevice("h200").value();
  const Program whole = Lower(SmallNet(), {}, h200).value();
  const Graph part = SmallNet(Layout::kNchw, /*with_block=*/false);
  CHECK(LowerPart(part, whole, h200).value() == BuildPart(part, whole).value());
  const Program smaller = Lower(part, {}, h200).value();
  CHECK(LowerPart(SmallNet(), smaller, h200).status().code() == absl::StatusCode::kInvalidArgument);
}

}  // namespace neap

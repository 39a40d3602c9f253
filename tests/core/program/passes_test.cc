#include "neap/core/program/passes.h"

#include <doctest/doctest.h>

#include "neap/core/device/device_description.h"
#include "neap/layers/fused_batch_norm.h"
#include "tests/random_graph.h"
#include "tests/small_training.h"

namespace neap {

namespace {

int FusedLayers(const Program& program) {
  int count = 0;
  for (const ProgramLayer& layer : program.layers)
    count += layer.layer.type() == FusedBatchNorm::kType ? 1 : 0;
  return count;
}

}  // namespace

TEST_CASE("without fusion and groups of updates, a program is as it was built, for every device") {
  const DeviceDescription h200 = DescribedDevice("h200").value();
  for (uint32_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    const Graph graph = testing::RandomGraph(seed, {.fusion = false});
    for (const Mode mode : {Mode::kTraining, Mode::kInference}) {
      const ProgramOptions options = {.mode = mode, .offload_params = true};
      const Program built = BuildProgram(graph, options).value();
      CHECK(Lower(graph, options, h200).value() == built);
      CHECK(Lower(graph, options, {}).value() == built);
      CHECK(Lower(graph, {.mode = mode}, {}).value() ==
            BuildProgram(graph, {.mode = mode}).value());
    }
  }
}

TEST_CASE("layers are fused in networks and in their parts, but not with the paper's accounting") {
  const DeviceDescription h200 = DescribedDevice("h200").value();
  const Program whole = Lower(SmallNet(), {}, h200).value();
  CHECK(FusedLayers(whole) > 0);
  CHECK(FusedLayers(Lower(SmallNet(), {.mode = Mode::kInference}, h200).value()) ==
        FusedLayers(whole));
  CHECK(FusedLayers(Lower(SmallNet(), {.accounting = Accounting::kPaper}, h200).value()) == 0);
  CHECK(FusedLayers(BuildProgram(SmallNet(), {}).value()) == 0);
  const Graph part = SmallNet(Layout::kNchw, /*with_block=*/false);
  CHECK(FusedLayers(LowerPart(part, whole, h200).value()) == FusedLayers(whole));
}

TEST_CASE("a part of a network is refused for a tensor that the whole lacks") {
  const DeviceDescription h200 = DescribedDevice("h200").value();
  const Graph part = SmallNet(Layout::kNchw, /*with_block=*/false);
  const Program smaller = Lower(part, {}, h200).value();
  CHECK(LowerPart(SmallNet(), smaller, h200).status().code() == absl::StatusCode::kInvalidArgument);
}

}  // namespace neap

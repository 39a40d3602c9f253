// Networks with layers that give images other extents train to the same bits under every plan.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <memory>

#include "neap/layers/cpu/cpu_device.h"
#include "tests/core/run/random_training.h"
#include "tests/random_graph.h"
#include "tests/random_resizes.h"

namespace neap::resize_training_test {

using testing::RandomGraph;
using testing::TrainedState;
using testing::TrainRandom;
using testing::WithResizes;

namespace {

constexpr DType kResizedTypes[] = {DType::kFp32, DType::kBf16, DType::kFp16};

TEST_CASE("random networks with resized images train to the same bits whatever the plan") {
  const absl::StatusOr<std::unique_ptr<CpuDevice>> device = CpuDevice::Open();
  REQUIRE(device.ok());
  const uint32_t seeds = testing::RandomSeeds(24);
  int resizes = 0;
  for (uint32_t seed = 0; seed < seeds; ++seed) {
    CAPTURE(seed);
    testing::RandomGraphOptions of;
    of.axes = seed % 5 == 3 ? 1 : seed % 5 == 4 ? 3 : 2;
    if (of.axes == 3) of.image = 4;
    of.dtype = kResizedTypes[seed / 2 % 3];
    if (seed / 4 % 2 == 1) of.layout = Layout::kChannelsLast;
    of.residual = seed / 3 % 3 == 1;
    of.mobile = seed / 3 % 3 == 2;
    of.ports = seed % 2 == 1;
    const Graph graph = WithResizes(RandomGraph(seed, of), seed);
    for (const GraphLayer& layer : graph.layers()) resizes += layer.layer.type() == "resize";
    of.fusion = false;
    const TrainedState reference = TrainRandom(WithResizes(RandomGraph(seed, of), seed), **device,
                                               {.policy = "keep-all", .in_place = false}, nullptr);
    for (const float loss : reference.at("loss")) REQUIRE(std::isfinite(loss));
    testing::CheckPlans(graph, **device, reference);
  }
  CHECK(resizes >= static_cast<int>(seeds) / 2);
}

}  // namespace
}  // namespace neap::resize_training_test

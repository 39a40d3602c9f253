// On a GPU, networks with layers that give images other extents train to the same bits under every
// plan.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <tuple>
#include <utility>

#include "tests/core/run/random_training.h"
#include "tests/gpu_test.h"
#include "tests/random_graph.h"
#include "tests/random_resizes.h"

namespace neap::resize_training_gpu_test {
namespace {

constexpr std::pair<DType, Layout> kResizedTypes[] = {{DType::kFp32, Layout::kChannelsFirst},
                                                      {DType::kBf16, Layout::kChannelsLast}};

TEST_CASE("on a GPU, random networks with resized images train to the same bits in every plan") {
  const std::unique_ptr<CudaDevice> gpu = testing::OpenGpuOrSkip();
  if (!gpu) return;
  const uint32_t seeds = testing::RandomSeeds(6);
  for (uint32_t seed = 0; seed < seeds; ++seed) {
    CAPTURE(seed);
    testing::RandomGraphOptions of = {.max_blocks = 4};
    of.axes = seed % 3 == 2 ? 3 : 2;
    if (of.axes == 3) of.image = 4;
    std::tie(of.dtype, of.layout) = kResizedTypes[seed % 2];
    const Graph graph = testing::WithResizes(testing::RandomGraph(seed, of), seed);
    const testing::TrainedState reference =
        testing::TrainRandom(graph, *gpu, {.policy = "keep-all", .strict = true}, nullptr);
    for (const float loss : reference.at("loss")) REQUIRE(std::isfinite(loss));
    testing::CheckPlans(graph, *gpu, reference);
  }
}

}  // namespace
}  // namespace neap::resize_training_gpu_test

// On a GPU, random networks of volumes train to the same bits under every plan, and nearly as on a
// CPU.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "tests/core/run/random_training.h"
#include "tests/gpu_test.h"
#include "tests/random_graph.h"
#include "tests/small_training.h"

namespace neap::random_training_test {
namespace {

constexpr DType kTypesOfVolumes[] = {DType::kFp32, DType::kBf16, DType::kFp16};

TEST_CASE("on a GPU, networks of volumes train to the same bits whatever the plan") {
  const std::unique_ptr<CudaDevice> gpu = testing::OpenGpuOrSkip();
  if (!gpu) return;
  const auto cpu = OpenCpu();
  const uint32_t seeds = testing::RandomSeeds(6);
  for (uint32_t seed = 0; seed < seeds; ++seed) {
    CAPTURE(seed);
    const testing::RandomGraphOptions of = {
        .axes = 3,
        .image = 4,
        .max_blocks = 5,
        .dropout = false,
        .dtype = kTypesOfVolumes[seed % 3],
        .layout = seed % 2 == 1 ? Layout::kChannelsLast : Layout::kChannelsFirst,
        .residual = seed / 2 % 3 == 1,
        .mobile = seed / 2 % 3 == 2};
    const Graph graph = testing::RandomGraph(seed, of);
    const PlannerOptions plainly = {.policy = "keep-all", .strict = true};
    const testing::TrainedState reference = testing::TrainRandom(graph, *gpu, plainly, nullptr);
    const testing::TrainedState on_cpu =
        testing::TrainRandom(graph, *cpu, {.policy = "keep-all"}, nullptr);
    const std::vector<float>& losses = reference.at("loss");
    for (size_t i = 0; i < losses.size(); ++i) {
      REQUIRE(std::isfinite(losses[i]));
      CHECK(losses[i] == doctest::Approx(on_cpu.at("loss")[i]).epsilon(0.05));
    }
    testing::CheckPlans(graph, *gpu, reference);
  }
}

}  // namespace
}  // namespace neap::random_training_test

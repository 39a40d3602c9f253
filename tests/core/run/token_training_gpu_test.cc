// On a GPU, networks of ids train to the same bits under every plan, and nearly as on a CPU.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/core/run/random_training.h"
#include "tests/gpu_test.h"
#include "tests/random_seeds.h"
#include "tests/random_tokens.h"
#include "tests/small_training.h"

namespace neap::token_training_gpu_test {
namespace {

constexpr std::pair<DType, Layout> kTokenTypes[] = {{DType::kFp32, Layout::kChannelsLast},
                                                    {DType::kBf16, Layout::kChannelsLast},
                                                    {DType::kFp16, Layout::kChannelsFirst}};

TEST_CASE("on a GPU, random networks of ids train to the same bits whatever the plan") {
  const std::unique_ptr<CudaDevice> gpu = testing::OpenGpuOrSkip();
  if (!gpu) return;
  const auto cpu = OpenCpu();
  const uint32_t seeds = testing::RandomSeeds(6);
  for (uint32_t seed = 0; seed < seeds; ++seed) {
    CAPTURE(seed);
    testing::RandomTokenOptions of;
    std::tie(of.dtype, of.layout) = kTokenTypes[seed % 3];
    const Graph graph = testing::RandomTokenGraph(seed, of);
    const testing::TrainedState reference =
        testing::TrainRandom(graph, *gpu, {.policy = "keep-all", .strict = true}, nullptr);
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
}  // namespace neap::token_training_gpu_test

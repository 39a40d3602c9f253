// On a GPU, networks with layers of several outputs train to the same bits under every plan.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "neap/core/run/session.h"
#include "tests/core/run/gated_net.h"
#include "tests/core/run/random_training.h"
#include "tests/gpu_test.h"
#include "tests/random_graph.h"
#include "tests/random_splits.h"
#include "tests/small_training.h"

namespace neap::several_outputs_test {
namespace {

constexpr std::pair<DType, Layout> kSplitTypes[] = {{DType::kFp32, Layout::kChannelsFirst},
                                                    {DType::kBf16, Layout::kChannelsLast}};

TEST_CASE("on a GPU, a split trains to the same bits in every budget, near what a CPU trains") {
  const std::unique_ptr<CudaDevice> gpu = testing::OpenGpuOrSkip();
  if (!gpu) return;
  const auto cpu = OpenCpu();
  for (const auto& [dtype, layout] : kSplitTypes) {
    CAPTURE(Name(dtype));
    const Graph net = testing::GatedNet({.dtype = dtype, .layout = layout});
    Session on_cpu = Opened(net, *cpu, {.policy = "keep-all"});
    Session reference = Opened(net, *gpu, {.policy = "keep-all", .strict = true});
    const float loss = Train(reference, 5);
    CHECK(loss == doctest::Approx(Train(on_cpu, 5)).epsilon(0.02));
    for (const std::string policy : {"liveness", "superneurons", "auto"}) {
      CAPTURE(policy);
      PlannerOptions planning = {.policy = policy, .strict = true};
      for (int run = 0; run < 2; ++run) {  // the second one in the smallest budget
        Session session = Opened(net, *gpu, planning);
        CHECK(Train(session, 5) == loss);
        CheckSameState(reference, session);
        const MemoryUse use = session.memory();
        CHECK(use.measured_peak_bytes == use.predicted_peak_bytes);
        planning.budget_bytes = session.planning().minimum_budget_bytes;
      }
    }
  }
}

TEST_CASE("on a GPU, random networks with splits train to the same bits whatever the plan") {
  const std::unique_ptr<CudaDevice> gpu = testing::OpenGpuOrSkip();
  if (!gpu) return;
  const uint32_t seeds = testing::RandomSeeds(8);
  for (uint32_t seed = 0; seed < seeds; ++seed) {
    CAPTURE(seed);
    testing::RandomGraphOptions of;
    of.dtype = kSplitTypes[seed % 2].first;
    of.layout = kSplitTypes[seed % 2].second;
    of.residual = seed / 2 % 4 == 1;
    of.dense = seed / 2 % 4 == 2;
    of.mobile = seed / 2 % 4 == 3;
    const Graph graph = testing::WithSplits(testing::RandomGraph(seed, of), seed);
    const testing::TrainedState reference =
        testing::TrainRandom(graph, *gpu, {.policy = "keep-all", .strict = true}, nullptr);
    for (const float loss : reference.at("loss")) REQUIRE(std::isfinite(loss));
    testing::CheckPlans(graph, *gpu, reference);
  }
}

}  // namespace
}  // namespace neap::several_outputs_test

// A GPU replays iterations as CUDA graphs with the bits of iterations that are enqueued.
#include <doctest/doctest.h>

#include <string>

#include "neap/core/run/session.h"
#include "tests/gpu_test.h"
#include "tests/small_training.h"

namespace neap {

TEST_CASE("on a GPU, recorded iterations train and evaluate to the same bits") {
  const std::unique_ptr<CudaDevice> gpu = testing::OpenGpuOrSkip();
  if (!gpu) return;
  for (const std::string policy : {"liveness", "offload", "tensor-cache", "superneurons"}) {
    CAPTURE(policy);
    PlannerOptions options = {.policy = policy, .strict = true};
    options.budget_bytes = MakeSession(*gpu, options).planning().minimum_budget_bytes;
    Session recorded = MakeSession(*gpu, options);
    Session enqueued = MakeSession(*gpu, options, {.records_iterations = false});
    for (uint64_t i = 0; i < 4; ++i) {
      CHECK(Train(recorded, 1) == Train(enqueued, 1));
      CHECK(recorded.Evaluate(MakeBatch(i))->loss == enqueued.Evaluate(MakeBatch(i))->loss);
    }
    REQUIRE(recorded.SetBudget(kUnlimited).ok());
    REQUIRE(enqueued.SetBudget(kUnlimited).ok());
    Train(recorded, 3);
    Train(enqueued, 3);
    CheckSameState(recorded, enqueued);
    CHECK(recorded.memory().measured_peak_bytes == enqueued.memory().measured_peak_bytes);
  }
}

}  // namespace neap

#include <doctest/doctest.h>

#include <string>

#include "neap/core/run/session.h"
#include "tests/core/run/measured_timeline.h"
#include "tests/gpu_test.h"
#include "tests/small_training.h"

namespace neap {

TEST_CASE("on a GPU a timed step respects the streams' order, and trains to the same bits") {
  const std::unique_ptr<CudaDevice> gpu = testing::OpenGpuOrSkip();
  if (!gpu) return;
  constexpr double kResolutionUs = 1;
  for (const std::string policy : {"liveness", "offload", "tensor-cache", "superneurons"}) {
    CAPTURE(policy);
    PlannerOptions options = {.policy = policy, .strict = true};
    options.budget_bytes = MakeSession(*gpu, options).planning().minimum_budget_bytes;
    Session steady = MakeSession(*gpu, options);
    Session timed = MakeSession(*gpu, options);
    for (uint64_t i = 0; i < 3; ++i) {
      const absl::StatusOr<TimedStep> step = timed.TimeStep(MakeBatch(i));
      REQUIRE_MESSAGE(step.ok(), step.status().ToString());
      CheckPossible(timed.plan(), step->timeline, kResolutionUs);
      const Overlap overlap = FindOverlap(timed.plan(), step->timeline);
      CHECK((overlap.copying_us > 0) == (timed.plan().host_peak_bytes > 0));
      CHECK(overlap.hidden_us <= overlap.copying_us);
    }
    Train(steady, 3);
    CheckSameState(steady, timed);
  }
}

}  // namespace neap

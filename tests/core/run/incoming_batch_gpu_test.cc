// On a GPU, batches that are copied while the iteration before runs train to the same bits.
#include <doctest/doctest.h>

#include <memory>
#include <utility>

#include "neap/core/run/session.h"
#include "tests/gpu_test.h"
#include "tests/small_training.h"

namespace neap {
namespace {

// The last loss of steps of which two are in flight.
float TrainAhead(Session& session, int steps) {
  float loss = 0;
  for (int step = 0; step <= steps; ++step) {
    if (step < steps) REQUIRE(session.Begin(MakeBatch(static_cast<uint64_t>(step))).ok());
    if (step > 0) loss = session.Finish().value().loss;
  }
  return loss;
}

}  // namespace

TEST_CASE("on a GPU, batches copied ahead and before their iteration train to the same bits") {
  const std::unique_ptr<CudaDevice> gpu = testing::OpenGpuOrSkip();
  if (!gpu) return;
  for (const bool records : {false, true}) {
    CAPTURE(records);
    const TrainingOptions training = {.records_iterations = records};
    PlannerOptions options = {.policy = "liveness", .strict = true};
    Session ahead = MakeSession(*gpu, options, training);
    options.budget_bytes = ahead.planning().minimum_budget_bytes;
    Session before = MakeSession(*gpu, options, training);
    REQUIRE(ahead.plan().incoming_batch.has_value());
    REQUIRE(!before.plan().incoming_batch.has_value());
    CHECK(TrainAhead(ahead, 20) == TrainAhead(before, 20));
    CHECK(ahead.Evaluate(MakeBatch(1))->loss == before.Evaluate(MakeBatch(1))->loss);
    CHECK(TrainAhead(ahead, 20) == TrainAhead(before, 20));
    CheckSameState(ahead, before);
    CHECK(ahead.memory().measured_peak_bytes == ahead.memory().predicted_peak_bytes);
  }
}

}  // namespace neap

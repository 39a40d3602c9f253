#include "tests/core/run/random_training.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

#include "neap/core/base/philox.h"
#include "neap/memory/create_session.h"

namespace neap::testing {
namespace {

Batch RandomBatch(const Plan& plan, int64_t classes, uint64_t seed) {
  Batch batch;
  for (const PlanTensor& tensor : plan.tensors) {
    if (tensor.name != "input") continue;
    batch.images.resize(static_cast<size_t>(tensor.shape.elements()));
    batch.labels.resize(static_cast<size_t>(plan.batch));
    batch.size = plan.batch;
  }
  for (size_t i = 0; i < batch.images.size(); ++i) {
    batch.images[i] = 2 * ToUnitFloat(Philox({.key = seed, .stream = 1, .position = i})[0]) - 1;
  }
  for (size_t i = 0; i < batch.labels.size(); ++i) {
    const uint32_t random = Philox({.key = seed, .stream = 2, .position = i})[0];
    batch.labels[i] = static_cast<int32_t>(random % static_cast<uint32_t>(classes));
  }
  return batch;
}

}  // namespace

TrainedState TrainRandom(const Graph& graph, Device& device, const PlannerOptions& options,
                         int64_t* minimum_budget, int steps, const TrainingOptions& training) {
  absl::StatusOr<Session> session = CreateSession(graph, device, options, training);
  REQUIRE_MESSAGE(session.ok(), session.status().ToString());
  if (minimum_budget != nullptr) *minimum_budget = session->planning().minimum_budget_bytes;
  TrainedState state;
  for (int step = 0; step < steps; ++step) {
    const absl::StatusOr<float> loss =
        session->TrainStep(RandomBatch(session->plan(), 4, static_cast<uint64_t>(step)));
    REQUIRE_MESSAGE(loss.ok(), loss.status().ToString());
    state["loss"].push_back(*loss);
  }
  CHECK(session->memory().measured_peak_bytes == session->memory().predicted_peak_bytes);
  for (const PlanTensor& tensor : session->plan().tensors) {
    if (IsPersistent(tensor.role)) state[tensor.name] = *session->Values(tensor.name);
  }
  return state;
}

bool SameBits(const TrainedState& a, const TrainedState& b) {
  if (a.size() != b.size()) return false;
  return std::equal(a.begin(), a.end(), b.begin(), [](const auto& x, const auto& y) {
    return x.first == y.first && x.second.size() == y.second.size() &&
           std::memcmp(x.second.data(), y.second.data(), x.second.size() * sizeof(float)) == 0;
  });
}

void CheckPlans(const Graph& graph, Device& device, const TrainedState& want) {
  for (const char* const policy : {"liveness", "tensor-cache", "superneurons", "chen", "auto"}) {
    CAPTURE(policy);
    PlannerOptions options = {.policy = policy, .strict = true};
    int64_t minimum = 0;
    CHECK(SameBits(TrainRandom(graph, device, options, &minimum), want));
    options.budget_bytes = minimum;
    CHECK(SameBits(TrainRandom(graph, device, options, nullptr), want));
  }
}

}  // namespace neap::testing

#include "tests/small_training.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <utility>

#include "neap/memory/create_session.h"

namespace neap {

Session MakeSession(Device& device, const PlannerOptions& planning, const TrainingOptions& training,
                    Layout layout) {
  return Opened(SmallNet(layout), device, planning, training);
}

Session Opened(const Graph& graph, Device& device, const PlannerOptions& planning,
               const TrainingOptions& training) {
  absl::StatusOr<Session> session = CreateSession(graph, device, planning, training);
  REQUIRE_MESSAGE(session.ok(), session.status().ToString());
  return *std::move(session);
}

PlannerOptions Tight(Device& device, const std::string& policy) {
  const Session natural = MakeSession(device, {.policy = policy});
  return {.budget_bytes = natural.planning().minimum_budget_bytes, .policy = policy};
}

float Train(Session& session, int steps) {
  float loss = 0;
  for (int i = 0; i < steps; ++i) {
    const absl::StatusOr<float> result =
        session.TrainStep(MakeBatch(static_cast<uint64_t>(session.step())));
    REQUIRE_MESSAGE(result.ok(), result.status().ToString());
    loss = *result;
  }
  return loss;
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](float x, float y) {
    return std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y);
  });
}

void FinishInto(Trained& trained, Session& session) {
  const absl::StatusOr<StepResult> result = session.Finish();
  REQUIRE_MESSAGE(result.ok(), result.status().ToString());
  trained[0].push_back(result->loss);
}

void AppendState(Trained& trained, Session& session) {
  for (const PlanTensor& tensor : session.plan().tensors) {
    if (IsPersistent(tensor.role)) trained.push_back(*session.Values(tensor.name));
  }
}

bool AreSame(const Trained& a, const Trained& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return SameBits(x, y); });
}

void CheckSameState(Session& a, Session& b) {
  CHECK(a.step() == b.step());
  for (const PlanTensor& tensor : a.plan().tensors) {
    if (!IsPersistent(tensor.role)) continue;
    INFO(tensor.name);
    CHECK(SameBits(*a.Values(tensor.name), *b.Values(tensor.name)));
  }
}

}  // namespace neap

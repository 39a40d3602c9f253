#include "tests/core/run/random_training.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <utility>

#include "neap/core/base/philox.h"
#include "neap/memory/create_session.h"
#include "tests/small_training.h"

namespace neap::testing {
namespace {

constexpr uint32_t kClasses = 4;

// Random values for the feeds of a plan whose batch is whole.
class RandomFeeds {
 public:
  RandomFeeds(const Plan& plan, uint64_t seed) : seed_(seed) {
    for (const PlanTensor& tensor : plan.tensors) {
      if (IsBatch(tensor.role) && tensor.name != "iteration") Add(tensor);
    }
  }
  const Feeds& feeds() const { return feeds_; }

 private:
  void Add(const PlanTensor& tensor) {
    const auto count = static_cast<size_t>(tensor.shape.elements());
    FeedValue value = {.name = tensor.name};
    ++stream_;
    if (tensor.dtype == DType::kInt32) {
      std::vector<int32_t>& integers = integers_.emplace_back(count);
      for (size_t i = 0; i < count; ++i) integers[i] = static_cast<int32_t>(Random(i) % kClasses);
      value.integers = integers;
    } else {
      std::vector<float>& floats = floats_.emplace_back(count);
      for (size_t i = 0; i < count; ++i) floats[i] = 2 * ToUnitFloat(Random(i)) - 1;
      value.floats = floats;
    }
    feeds_.push_back(std::move(value));
  }
  uint32_t Random(size_t i) const {
    return Philox({.key = seed_, .stream = stream_, .position = i})[0];
  }

  uint64_t seed_;
  uint64_t stream_ = 0;  // of the last feed
  Feeds feeds_;
  std::deque<std::vector<float>> floats_;
  std::deque<std::vector<int32_t>> integers_;
};

}  // namespace

TrainedState TrainRandom(const Graph& graph, Device& device, const PlannerOptions& options,
                         int64_t* minimum_budget, int steps, const TrainingOptions& training) {
  absl::StatusOr<Session> session = CreateSession(graph, device, options, training);
  REQUIRE_MESSAGE(session.ok(), session.status().ToString());
  if (minimum_budget != nullptr) *minimum_budget = session->planning().minimum_budget_bytes;
  TrainedState state;
  for (int step = 0; step < steps; ++step) {
    const RandomFeeds given(session->plan(), static_cast<uint64_t>(step));
    const absl::StatusOr<StepResult> result = session->Step(given.feeds());
    REQUIRE_MESSAGE(result.ok(), result.status().ToString());
    state["loss"].push_back(result->loss);
    for (const NamedTensor& output : result->outputs) {
      std::vector<float>& values = state["output " + output.name];
      values.insert(values.end(), output.values.begin(), output.values.end());
    }
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
    return x.first == y.first && neap::SameBits(x.second, y.second);
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

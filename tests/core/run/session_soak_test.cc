// A long run with a changing budget: no bit of the training changes, and no memory leaks.
#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "neap/core/base/philox.h"
#include "neap/core/run/session.h"
#include "neap/layers/activation.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/memory/create_session.h"
#include "tests/faulty_device.h"
#include "tests/small_training.h"

namespace neap {
namespace {

constexpr int kSoakSteps = 2000;
constexpr int kStepsPerBudget = 20;
constexpr uint64_t kSeed = 20;
constexpr int64_t kSoakBatch = 4;

struct Held {
  int64_t device_bytes = 0, pinned_bytes = 0;
  friend bool operator==(const Held&, const Held&) = default;
};
Held HeldOf(FaultyDevice& device) { return {*device.UsedBytes(), device.pinned_bytes()}; }

// Two convolutions, of which the first's result may be offloaded; small, as there are many steps.
Graph Chain() {
  Graph net({.name = "chain", .batch = kSoakBatch});
  std::string x = net.Input({1, 8, 8});
  x = net.Add("conv1", Convolution{.out_channels = 8, .kernel = 3, .padding = 1}, {x});
  x = net.Add("relu1", Relu{}, {x});
  x = net.Add("conv2", Convolution{.out_channels = 8, .kernel = 3, .padding = 1}, {x});
  x = net.Add("relu2", Relu{}, {x});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 4}, {x}), SoftmaxCrossEntropy{});
  return net;
}

Batch SoakBatch(int64_t step) {
  Batch batch = {.labels = {0, 1, 2, 3}, .size = kSoakBatch};
  for (uint64_t i = 0; i < kSoakBatch * 8 * 8; ++i) {
    batch.images.push_back(ToUnitFloat(
        Philox({.key = kSeed, .stream = static_cast<uint64_t>(step), .position = i})[0]));
  }
  return batch;
}

float TrainOnce(Session& session) {
  const absl::StatusOr<float> loss = session.TrainStep(SoakBatch(session.step()));
  REQUIRE_MESSAGE(loss.ok(), loss.status().ToString());
  return *loss;
}

Session Open(Device& device, PlannerOptions planning) {
  absl::StatusOr<Session> session = CreateSession(Chain(), device, std::move(planning));
  REQUIRE_MESSAGE(session.ok(), session.status().ToString());
  return *std::move(session);
}

// Whole blocks in [least, most].
int64_t RandomBudget(int64_t least, int64_t most, uint64_t number) {
  const auto blocks = static_cast<uint64_t>((most - least) / kBlockBytes + 1);
  const uint64_t random = Philox({.key = kSeed, .stream = 0, .position = number})[0];
  return least + static_cast<int64_t>(random % blocks) * kBlockBytes;
}

}  // namespace

TEST_CASE(
    "2,000 steps with another budget every 20 steps give the losses of a run with one budget") {
  const auto cpu = OpenCpu();
  std::vector<float> losses;
  Session unmanaged = Open(*cpu, {.policy = "keep-all", .in_place = false});
  for (int i = 0; i < kSoakSteps; ++i) losses.push_back(TrainOnce(unmanaged));
  for (const char* policy : {"tensor-cache", "superneurons", "auto"}) {
    CAPTURE(policy);
    CAPTURE(kSeed);
    FaultyDevice device(*cpu);
    Session session = Open(device, {.policy = policy});
    const int64_t minimum = session.planning().minimum_budget_bytes;
    const int64_t natural = session.memory().arena_bytes;
    const Held at_first = HeldOf(device);
    int different = 0;
    for (int i = 0; i < kSoakSteps; ++i) {
      if (i % kStepsPerBudget == kStepsPerBudget - 1) {
        const int64_t budget = RandomBudget(minimum, natural, static_cast<uint64_t>(i));
        REQUIRE(session.SetBudget(budget).ok());
        CHECK(*device.UsedBytes() <= budget);
      }
      different += TrainOnce(session) == losses[static_cast<size_t>(i)] ? 0 : 1;
    }
    CHECK(different == 0);
    CheckSameState(unmanaged, session);
    REQUIRE(session.SetBudget(kUnlimited).ok());
    CHECK(HeldOf(device) == at_first);
  }
}

}  // namespace neap

// Random networks whose losses the caller computes train to the bits of those losses, whatever the
// plan, and in every order of the streams.
#include <doctest/doctest.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "neap/core/base/philox.h"
#include "neap/core/run/session.h"
#include "neap/memory/create_session.h"
#include "neap/memory/policies/policies.h"
#include "tests/adversarial_device.h"
#include "tests/forwarding_device.h"
#include "tests/given_gradients.h"
#include "tests/random_graph.h"
#include "tests/small_training.h"

namespace neap::random_pause_test {
namespace {

using testing::CheckSameParameters;
using testing::GivenLosses;
using testing::RandomGraph;

constexpr int kSteps = 3;
constexpr uint32_t kClasses = 4;
// Sums without normalisation grow: slow enough for losses to stay finite.
constexpr TrainingOptions kSlow = {.learning_rate = {.base = 1e-3F}};

// Random values for all feeds of a network, with its targets.
class RandomValues {
 public:
  RandomValues(const Graph& net, uint64_t seed) {
    const ResolvedGraph graph = Resolve(net, Mode::kTraining).value();
    for (const ResolvedLayer& layer : graph.layers) {
      if (layer.role != LayerRole::kFeed) continue;
      const auto count = static_cast<size_t>(layer.spec.output.elements());
      FeedValue& value = feeds_.emplace_back(FeedValue{.name = layer.name});
      const auto random = [&, stream = feeds_.size()](size_t i) {
        return Philox({.key = seed, .stream = stream, .position = i})[0];
      };
      if (layer.spec.output.dtype == DType::kInt32) {
        std::vector<int32_t>& integers = integers_.emplace_back(count);
        for (size_t i = 0; i < count; ++i) integers[i] = static_cast<int32_t>(random(i) % kClasses);
        value.integers = integers;
      } else {
        std::vector<float>& floats = floats_.emplace_back(count);
        for (size_t i = 0; i < count; ++i) floats[i] = 2 * ToUnitFloat(random(i)) - 1;
        value.floats = floats;
      }
    }
  }
  const Feeds& feeds() const { return feeds_; }

 private:
  Feeds feeds_;
  std::deque<std::vector<float>> floats_;
  std::deque<std::vector<int32_t>> integers_;
};

// Some without running statistics, which a step that is given up would change.
bool GivesUp(uint32_t seed) { return seed % 3 == 0; }

Graph NetOf(uint32_t seed) {
  constexpr DType kTypes[] = {DType::kFp32, DType::kBf16, DType::kFp16};
  return RandomGraph(seed,
                     {.batch_norm = !GivesUp(seed),
                      .image_norms = seed % 3 == 2,
                      .dtype = kTypes[seed / 5 % 3],
                      .layout = seed % 4 == 3 ? Layout::kChannelsLast : Layout::kChannelsFirst,
                      .fusion = seed % 7 != 0,
                      .residual = seed % 3 == 1,
                      .read_twice = seed % 5 == 2,
                      .auxiliary = seed % 6 == 5,
                      .ports = seed % 2 == 1,
                      .shares = seed % 4 == 1});
}

Session TrainedByLosses(const Graph& net, Device& device) {
  Session session = Opened(net, device, {}, kSlow);
  for (uint64_t step = 0; step < kSteps; ++step)
    REQUIRE(session.Step(RandomValues(net, step).feeds()).ok());
  return session;
}

Session TrainedByGradients(const Graph& net, uint32_t seed, Device& device,
                           const PlannerOptions& planning) {
  const GivenLosses losses(net);
  Session session = Opened(losses.net(), device, planning, kSlow);
  for (uint64_t step = 0; step < kSteps; ++step) {
    const RandomValues given(net, step);
    if (step == 1 && GivesUp(seed)) {
      REQUIRE(session.Forward(losses.FeedsOf(RandomValues(net, 99).feeds())).ok());
      REQUIRE(session.SkipBackward().ok());
    }
    losses.Step(session, given.feeds());
  }
  CHECK(session.memory().measured_peak_bytes == session.memory().predicted_peak_bytes);
  return session;
}

PlannerOptions TightOptions(const Graph& net, Device& device, PlannerOptions options) {
  const Session natural = Opened(GivenLosses(net).net(), device, options, kSlow);
  options.budget_bytes = natural.planning().minimum_budget_bytes;
  return options;
}

// Kernels run when they are recorded, so only counts can be compared, not values.
class CountingDevice final : public ForwardingDevice {
 public:
  explicit CountingDevice(Device& device) : ForwardingDevice(device) {}

  absl::Status Copy(Stream stream, void* to, const void* from, int64_t bytes) override {
    CHECK(!recording_);
    return ForwardingDevice::Copy(stream, to, from, bytes);
  }
  absl::StatusOr<std::unique_ptr<Recording>> Capture(
      absl::FunctionRef<absl::Status()> enqueue) override {
    ++recorded;
    recording_ = true;
    const absl::Status enqueued = enqueue();
    recording_ = false;
    if (!enqueued.ok()) return enqueued;
    return std::make_unique<Recording>();
  }
  absl::Status Replay(const Recording& /*recording*/) override {
    ++replayed;
    return absl::OkStatus();
  }

  int recorded = 0, replayed = 0;

 private:
  bool recording_ = false;
};

}  // namespace

TEST_CASE("random networks train with given gradients as with their losses, whatever the plan") {
  const auto device = OpenCpu();
  const absl::Span<const Policy> policies = Policies();
  const uint32_t seeds = testing::RandomSeeds(24);
  for (uint32_t seed = 0; seed < seeds; ++seed) {
    CAPTURE(seed);
    const Graph net = NetOf(seed);
    Session expected = TrainedByLosses(net, *device);
    for (const size_t i : {size_t{seed}, size_t{seed} / 2 + 3}) {
      PlannerOptions planning = {.policy = std::string(policies[i % policies.size()].name),
                                 .in_place = seed % 5 != 0};
      planning.offload_params = seed % 8 == 7;
      CAPTURE(planning.policy);
      Session natural = TrainedByGradients(net, seed, *device, planning);
      CheckSameParameters(natural, expected);
      Session tight = TrainedByGradients(net, seed, *device, TightOptions(net, *device, planning));
      CheckSameParameters(tight, expected);
    }
  }
}

TEST_CASE("copies that are in flight over the pause run in any order") {
  const auto cpu = OpenCpu();
  constexpr const char* kPolicies[] = {"tensor-cache", "superneurons", "offload", "auto"};
  const uint32_t seeds = testing::RandomSeeds(8);
  int64_t overtakings = 0;
  for (uint32_t seed = 0; seed < seeds; ++seed) {
    CAPTURE(seed);
    const Graph net = NetOf(seed);
    Session expected = TrainedByLosses(net, *cpu);
    PlannerOptions planning = {.policy = kPolicies[seed % 4]};
    planning.offload_params = seed % 7 == 0;
    planning = TightOptions(net, *cpu, planning);
    for (const uint32_t order :
         {5 * seed % AdversarialDevice::kFixedOrders, AdversarialDevice::kFixedOrders + seed}) {
      CAPTURE(order);
      AdversarialDevice device(*cpu, order);
      Session session = TrainedByGradients(net, seed, device, planning);
      CheckSameParameters(session, expected);
      CHECK(device.Fault() == "");
      overtakings += device.overtakings();
    }
  }
  CHECK(overtakings > 0);
}

TEST_CASE("no recording spans the pause") {
  const auto cpu = OpenCpu();
  CountingDevice device(*cpu);
  const Graph net = SmallNet();
  const GivenLosses losses(net);
  Session session = Opened(losses.net(), device);
  const Batch batch = MakeBatch(1);
  const Feeds feeds = {{.name = "input", .floats = batch.images}};
  // An iteration is recorded when every kernel has run once.
  for (int i = 0; i < 2; ++i) {
    REQUIRE(session.Forward(feeds).ok());
    REQUIRE(session.SkipBackward().ok());
  }
  CHECK(device.recorded == 0);
  std::vector<std::pair<int, int>> replayed;  // before each pause, and behind it
  for (int step = 0; step < 3; ++step) {
    device.replayed = 0;
    const std::vector<NamedTensor> outputs = session.Forward(feeds).value();
    const int before = device.replayed;
    const std::vector<float> gradient(outputs.at(0).values.size(), 0.125F);
    REQUIRE(session.Backward({{.name = outputs[0].name, .floats = gradient}}).ok());
    replayed.emplace_back(before, device.replayed - before);
  }
  CHECK(device.recorded == 2);
  CHECK(replayed == std::vector<std::pair<int, int>>{{0, 0}, {1, 1}, {1, 1}});
}

}  // namespace neap::random_pause_test

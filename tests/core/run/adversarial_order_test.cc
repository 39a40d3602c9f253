// The contract on a hostile device: in every order that the waits of a plan allow, training gives
// the same bits; and if a wait is missing, some order reveals it.
//
// NEAP_RANDOM_SEEDS=N tries N networks instead of the usual few.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "neap/core/base/philox.h"
#include "neap/core/run/executor.h"
#include "neap/core/run/initialize.h"
#include "neap/core/run/session.h"
#include "neap/core/verifier/verifier.h"
#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/convolution.h"
#include "neap/layers/dropout.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/join.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/memory/create_session.h"
#include "neap/memory/planner.h"
#include "neap/memory/policies/policies.h"
#include "tests/adversarial_device.h"
#include "tests/random_graph.h"
#include "tests/small_training.h"

namespace neap {
namespace {

constexpr int kOrderedSteps = 3;
constexpr int64_t kClasses = 4;
// Sums without normalisation grow: slow enough for losses to stay finite.
constexpr TrainingOptions kOrderedTraining = {.learning_rate = {.base = 1e-3F}};

float RandomFloat(uint64_t seed, uint64_t position) {
  return 2 * ToUnitFloat(Philox({.key = seed, .stream = 1, .position = position})[0]) - 1;
}

Batch RandomBatch(const Plan& plan, uint64_t seed) {
  Batch batch = {.size = plan.batch};
  for (const PlanTensor& tensor : plan.tensors) {
    if (tensor.name != "input") continue;
    for (int64_t i = 0; i < tensor.shape.elements(); ++i)
      batch.images.push_back(RandomFloat(seed, static_cast<uint64_t>(i)));
  }
  for (int64_t i = 0; i < plan.batch; ++i)
    batch.labels.push_back(static_cast<int32_t>((i + static_cast<int64_t>(seed)) % kClasses));
  return batch;
}

// A few steps, two of them in flight.
Trained Train(Session session) {
  Trained trained(1);
  for (int step = 0; step <= kOrderedSteps; ++step) {
    if (step < kOrderedSteps) {
      const Batch batch = RandomBatch(session.plan(), static_cast<uint64_t>(step));
      const absl::Status begun = session.Begin(batch);
      REQUIRE_MESSAGE(begun.ok(), begun.ToString());
    }
    if (step > 0) FinishInto(trained, session);
  }
  AppendState(trained, session);
  return trained;
}

// Policies, budgets and peers alternate over the seeds.
PlannerOptions OptionsOf(uint32_t seed, const Graph& graph, Device& device) {
  std::vector<std::string> policies;
  for (const Policy& policy : Policies()) {
    if (policy.name != "keep-all" && policy.name != "liveness") policies.emplace_back(policy.name);
  }
  constexpr int64_t kPeers[] = {0, 8 * kBlockBytes, kUnlimited};
  PlannerOptions options = {.peer_budget_bytes = kPeers[seed / 2 % 3],
                            .policy = policies[seed % policies.size()],
                            .in_place = seed % 5 != 0};
  options.offload_params = seed % 7 == 0;
  const Session natural = Opened(graph, device, options, kOrderedTraining);
  const int64_t minimum = natural.planning().minimum_budget_bytes;
  const int64_t most = std::max(minimum, natural.plan().peak_bytes);
  const bool is_tight = seed / policies.size() % 2 == 0;
  options.budget_bytes = is_tight ? minimum : (minimum + most) / 2;
  return options;
}

bool MovesAnything(const Plan& plan) { return plan.host_peak_bytes + plan.peer_peak_bytes > 0; }

TEST_CASE("random networks train to the same bits in every order of the streams") {
  constexpr uint32_t kMaxSeeds = 1'000'000;
  const uint32_t seeds = testing::RandomSeeds(16, kMaxSeeds);
  const auto cpu = OpenCpu();
  int64_t overtakings = 0;
  int moving = 0;
  for (uint32_t seed = 0; seed < seeds; ++seed) {
    CAPTURE(seed);
    const Layout layout = seed % 4 == 3 ? Layout::kChannelsLast : Layout::kChannelsFirst;
    const Graph graph =
        testing::RandomGraph(seed, {.image_norms = seed % 3 == 1, .layout = layout});
    const auto expected =
        Train(Opened(graph, *cpu, {.policy = "keep-all", .in_place = false}, kOrderedTraining));
    for (const float loss : expected[0]) REQUIRE(std::isfinite(loss));
    const PlannerOptions options = OptionsOf(seed, graph, *cpu);
    CAPTURE(options.policy);
    CAPTURE(options.budget_bytes);
    constexpr uint32_t kOrders = 3;  // two that are fixed, and one that changes
    for (uint32_t i = 0; i < kOrders; ++i) {
      const uint32_t order = i + 1 < kOrders ? (5 * seed + 6 * i) % AdversarialDevice::kFixedOrders
                                             : AdversarialDevice::kFixedOrders + seed;
      CAPTURE(order);
      AdversarialDevice device(*cpu, order);
      Session session = Opened(graph, device, options, kOrderedTraining);
      moving += MovesAnything(session.plan()) ? 1 : 0;
      CHECK(AreSame(expected, Train(std::move(session))));
      CHECK(device.Fault() == "");
      overtakings += device.overtakings();
    }
  }
  MESSAGE(moving, " sessions moved tensors, ", overtakings, " overtakings");
  CHECK(moving > 0);
  CHECK(overtakings > 0);
}

// Without layers that compute addresses from data, which would be random after a missing wait.
Graph NetWithoutIndices() {
  Graph net({.name = "no indices", .batch = 4});
  std::string x = net.Input({3, 8, 8});
  x = net.Add("conv1", Convolution{.out_channels = 8, .kernel = 3, .padding = 1}, {x});
  x = net.Add("bn1", BatchNorm{}, {x});
  const std::string trunk = net.Add("relu1", Relu{}, {x});
  x = net.Add("conv2", Convolution{.out_channels = 8, .kernel = 3, .padding = 1}, {trunk});
  x = net.Add("relu2", Relu{}, {x});
  x = net.Add("add", Add{}, {x, trunk});
  x = net.Add("conv3", Convolution{.out_channels = 8, .kernel = 3, .padding = 1}, {x});
  x = net.Add("relu3", Relu{}, {x});
  x = net.Add("drop", Dropout{.probability = 0.25F}, {x});
  net.Loss(net.Add("fc", FullyConnected{.out_features = kClasses}, {x}), SoftmaxCrossEntropy{});
  return net;
}

// Executes a plan as a session would, but without the verifier.
class UnverifiedRun {
 public:
  UnverifiedRun(const Program& program, const Plan& plan, Device& device)
      : program_(program), plan_(plan), device_(device) {
    absl::StatusOr<Buffer> arena = device.Allocate(MemoryKind::kDevice, plan.arena_bytes);
    REQUIRE(arena.ok());
    arena_ = *std::move(arena);
    absl::StatusOr<Executor> executor = Executor::Create(program, plan, device, {arena_.data()});
    REQUIRE_MESSAGE(executor.ok(), executor.status().ToString());
    executor_.emplace(*std::move(executor));
  }

  // The bytes of all persistent tensors after a few iterations, enqueued one after another.
  std::string Train() {
    for (const Tensor& tensor : program_.tensors) {
      if (IsPersistent(tensor.role)) Write(tensor.id, InitialValues(tensor, 1));
    }
    for (int step = 0; step < kOrderedSteps; ++step) {
      WriteBatch(static_cast<uint32_t>(step));
      REQUIRE(executor_->Run().ok());
    }
    REQUIRE(device_.Synchronize().ok());
    std::string bytes;
    for (const PlanTensor& tensor : plan_.tensors) {
      if (!IsPersistent(tensor.role)) continue;
      const auto* const place = reinterpret_cast<const char*>(executor_->Address(tensor.id));
      bytes.append(place, static_cast<size_t>(tensor.bytes));
    }
    return bytes;
  }

 private:
  template <typename T>
  void Write(TensorId id, const std::vector<T>& values) {
    std::byte* const place = executor_->Address(id);
    if (place == nullptr) return;
    const auto* const begin = reinterpret_cast<const char*>(values.data());
    sent_.emplace_back(begin, values.size() * sizeof(T));
    const auto bytes = static_cast<int64_t>(sent_.back().size());
    REQUIRE(bytes == plan_.tensors[id.index()].bytes);
    REQUIRE(device_.Copy(Stream::kCompute, place, sent_.back().data(), bytes).ok());
  }

  void WriteBatch(uint32_t step) {
    const Batch batch = RandomBatch(plan_, step);
    Write(program_.feeds[0].parts.front(), batch.images);
    Write(program_.feeds[1].parts.front(), batch.labels);
    Write(program_.iteration,
          std::vector<IterationScalars>{{.learning_rate = 0.05F, .step = step, .seed = 1}});
  }

  const Program& program_;
  const Plan& plan_;
  Device& device_;
  Buffer arena_;
  std::deque<std::string> sent_;  // until it has been copied
  std::optional<Executor> executor_;
};

// A stream that waits for itself does not wait.
Plan WithoutWait(const Plan& plan, size_t index) {
  Plan changed = plan;
  auto& wait = std::get<WaitAction>(changed.actions[index]);
  wait.stream = *StreamOf(plan.actions[static_cast<size_t>(wait.on)]);
  return changed;
}

bool ShowsInSomeOrder(const Program& program, const Plan& plan, Device& cpu,
                      const std::string& expected) {
  constexpr uint32_t kOrders = AdversarialDevice::kFixedOrders + 6;
  for (uint32_t order = 0; order < kOrders; ++order) {
    AdversarialDevice device(cpu, order);
    if (UnverifiedRun(program, plan, device).Train() != expected) return true;
    if (!device.Fault().empty()) return true;
  }
  return false;
}

TEST_CASE("removing a wait that a plan needs changes the result in some order") {
  const auto cpu = OpenCpu();
  const absl::StatusOr<Program> program = BuildProgram(NetWithoutIndices(), {});
  REQUIRE(program.ok());
  int needed = 0;
  for (const char* const policy : {"offload", "tensor-cache"}) {
    CAPTURE(policy);
    PlannerOptions options = {.policy = policy, .strict = true};
    const absl::StatusOr<int64_t> minimum =
        MinimumBudget(*program, options, cpu->description(), cpu->backend());
    REQUIRE(minimum.ok());
    options.budget_bytes = *minimum;
    const absl::StatusOr<PlanResult> planned =
        MakePlan(*program, options, cpu->description(), cpu->backend());
    REQUIRE_MESSAGE(planned.ok(), planned.status().ToString());
    const Plan& plan = planned->plan;
    REQUIRE(Verify(plan).ok());
    const std::string expected = UnverifiedRun(*program, plan, *cpu).Train();
    CHECK_FALSE(ShowsInSomeOrder(*program, plan, *cpu, expected));
    for (size_t i = 0; i < plan.actions.size(); ++i) {
      if (!std::holds_alternative<WaitAction>(plan.actions[i])) continue;
      const Plan changed = WithoutWait(plan, i);
      if (Verify(changed).ok()) continue;  // another wait implies this one
      ++needed;
      CAPTURE(i);
      CAPTURE(std::string(Verify(changed).message()));
      CHECK(ShowsInSomeOrder(*program, changed, *cpu, expected));
    }
  }
  MESSAGE(needed, " waits are needed");
  CHECK(needed > 0);
}

}  // namespace
}  // namespace neap

// A graph that differs from iteration to iteration.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "neap/core/run/session.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/memory/create_session.h"
#include "tests/faulty_device.h"
#include "tests/guarded_device.h"
#include "tests/scratch_directory.h"
#include "tests/small_training.h"

namespace neap {
namespace {

Graph Whole() { return SmallNet(); }
Graph WithoutBlock() { return SmallNet(Layout::kChannelsFirst, /*with_block=*/false); }

constexpr const char* kOfBlock[] = {"conv2.weight", "conv2.bias", "conv2.weight.momentum"};

std::vector<std::vector<float>> BlockValues(Session& session) {
  std::vector<std::vector<float>> values;
  for (const char* name : kOfBlock) values.push_back(*session.Values(name));
  return values;
}

// Trains `steps` steps, the i-th with the block if `with_block(i)`.
template <typename WithBlock>
void TrainVaried(Session& session, int steps, WithBlock with_block) {
  for (int i = 0; i < steps; ++i) {
    const absl::Status set = session.SetTrainingGraph(with_block(i) ? Whole() : WithoutBlock());
    REQUIRE_MESSAGE(set.ok(), set.ToString());
    Train(session, 1);
  }
}

}  // namespace

TEST_CASE("a part of a network trains as it does by itself") {
  const auto device = OpenCpu();
  absl::StatusOr<Session> alone = CreateSession(WithoutBlock(), *device, {});
  REQUIRE(alone.ok());
  Session part = MakeSession(*device, {});
  REQUIRE(part.SetTrainingGraph(WithoutBlock()).ok());
  CHECK(Train(*alone, 3) == Train(part, 3));
  CheckSameState(*alone, part);
}

TEST_CASE("parameters of layers that are left out keep their values until they are used again") {
  const auto device = OpenCpu();
  Session session = MakeSession(*device, {.policy = "superneurons"});
  Train(session, 2);
  const auto before = BlockValues(session);
  const std::vector<float> others = *session.Values("conv1.weight");
  REQUIRE(session.SetTrainingGraph(WithoutBlock()).ok());
  Train(session, 2);
  CHECK(BlockValues(session) == before);
  CHECK(*session.Values("conv1.weight") != others);
  REQUIRE(session.SetTrainingGraph(Whole()).ok());
  CHECK(BlockValues(session) == before);
  Train(session, 1);
  CHECK(BlockValues(session) != before);
}

TEST_CASE("a schedule of graphs gives the same bits under every policy and budget") {
  const auto device = OpenCpu();
  const auto schedule = [](int i) { return i % 3 != 1; };
  Session reference = MakeSession(*device, {.policy = "keep-all", .in_place = false});
  TrainVaried(reference, 6, schedule);
  PlannerOptions of_all[] = {
      {.policy = "liveness"}, {.policy = "tensor-cache"}, {.policy = "superneurons"}};
  for (PlannerOptions& options : of_all) {
    CAPTURE(options.policy);
    Session natural = MakeSession(*device, options);
    options.budget_bytes = natural.planning().minimum_budget_bytes;
    Session smallest = MakeSession(*device, options);
    for (Session* session : {&natural, &smallest}) {
      TrainVaried(*session, 6, schedule);
      const MemoryUse use = session->memory();
      CHECK(use.measured_peak_bytes == use.predicted_peak_bytes);
      CheckSameState(reference, *session);
    }
  }
}

TEST_CASE("parameters that live on the host keep their values there while they are left out") {
  const auto wide = [](bool with_fc2) {
    Graph net({.name = "wide", .batch = 8});
    std::string x = net.Input({3, 8, 8});
    x = net.Add("fc1", FullyConnected{.out_features = 16}, {x});
    if (with_fc2) {
      x = net.Add("fc2", FullyConnected{.out_features = 1024}, {x});
      x = net.Add("fc3", FullyConnected{.out_features = 16}, {x});
    }
    net.Loss(net.Add("fc4", FullyConnected{.out_features = 4}, {x}), SoftmaxCrossEntropy{});
    return net;
  };
  const auto device = OpenCpu();
  absl::StatusOr<Session> in_arena = CreateSession(wide(true), *device, {});
  absl::StatusOr<Session> on_host =
      CreateSession(wide(true), *device, {.policy = "superneurons", .offload_params = true});
  REQUIRE(in_arena.ok());
  REQUIRE_MESSAGE(on_host.ok(), on_host.status().ToString());
  REQUIRE(on_host->SetBudget(on_host->planning().minimum_budget_bytes).ok());
  for (const bool with_fc2 : {true, false, true}) {
    REQUIRE(in_arena->SetTrainingGraph(wide(with_fc2)).ok());
    REQUIRE(on_host->SetTrainingGraph(wide(with_fc2)).ok());
    CHECK(std::any_of(on_host->plan().tensors.begin(), on_host->plan().tensors.end(),
                      [](const PlanTensor& t) { return t.name == "fc2.weight" && t.on_host(); }));
    CHECK(Train(*in_arena, 2) == Train(*on_host, 2));
  }
  CheckSameState(*in_arena, *on_host);
}

TEST_CASE("a graph that was used before is not planned again, and the arena is kept") {
  const auto cpu = OpenCpu();
  GuardedDevice device(*cpu);
  Session session = MakeSession(device, {});
  const int allocations = device.allocations();
  CHECK(session.plan_cache().misses == 2);  // training and evaluation
  TrainVaried(session, 8, [](int i) { return i % 2 == 0; });
  CHECK(session.plan_cache().misses == 3);
  CHECK(session.plan_cache().hits == 0);
  CHECK(session.executables().made == 3);
  CHECK(session.executables().resumed == 6);   // the first step has that graph already
  CHECK(device.allocations() == allocations);  // neither arena nor pinned memory
  CHECK(device.GuardsIntact());
}

TEST_CASE("another budget needs other kernels, but for a budget of before no plans") {
  const auto device = OpenCpu();
  Session session = MakeSession(*device, {});
  Session steady = MakeSession(*device, {});
  const int64_t minimum = session.planning().minimum_budget_bytes;
  for (const int64_t budget : {minimum, kUnlimited, minimum}) {
    REQUIRE(session.SetBudget(budget).ok());
    TrainVaried(session, 4, [](int i) { return i % 2 == 1; });
    TrainVaried(steady, 4, [](int i) { return i % 2 == 1; });
  }
  CheckSameState(steady, session);
  CHECK(session.plan_cache().misses == 6);
  // In the beginning and with each of the three budgets the whole network and evaluation, and with
  // each budget the other graph.
  CHECK(session.executables().made == 11);
}

TEST_CASE("graphs that were not trained for the longest time are made again") {
  const auto device = OpenCpu();
  Session session = MakeSession(*device, {});
  const auto set = [&](int n) {
    Graph graph = SmallNet();
    Graph other({.name = "graph" + std::to_string(n), .batch = graph.options().batch}, graph);
    for (const GraphLayer& layer : graph.layers()) other.Add(layer);
    REQUIRE(session.SetTrainingGraph(other).ok());
    Train(session, 1);
  };
  constexpr int kGraphs = 70;
  for (int n = 0; n < kGraphs; ++n) set(n);
  CHECK(session.executables().made == 2 + kGraphs);
  set(kGraphs - 64);  // the oldest of 64
  CHECK(session.executables().made == 2 + kGraphs);
  set(kGraphs - 65);
  CHECK(session.executables().made == 2 + kGraphs + 1);
}

TEST_CASE("the graph changes while steps are in flight") {
  const auto device = OpenCpu();
  for (const bool tight : {false, true}) {
    Session session = MakeSession(*device, {.policy = "superneurons"});
    Session steady = MakeSession(*device, {.policy = "superneurons"});
    if (tight) REQUIRE(session.SetBudget(session.planning().minimum_budget_bytes).ok());
    std::vector<float> expected, losses;
    for (int i = 0; i < 6; ++i) {
      REQUIRE(steady.SetTrainingGraph(i % 3 == 1 ? WithoutBlock() : Whole()).ok());
      expected.push_back(*steady.TrainStep(MakeBatch(static_cast<uint64_t>(i))));
    }
    const auto finish = [&] { losses.push_back(session.Finish()->loss); };
    for (int i = 0; i < 6; ++i) {
      if (i >= 2) finish();
      REQUIRE(session.SetTrainingGraph(i % 3 == 1 ? WithoutBlock() : Whole()).ok());
      REQUIRE(session.Begin(MakeBatch(static_cast<uint64_t>(i))).ok());
    }
    finish();
    finish();
    CHECK(losses == expected);
    CheckSameState(steady, session);
  }
}

TEST_CASE("evaluation and checkpoints are those of the whole network") {
  const auto device = OpenCpu();
  const ScratchDirectory directory;
  const std::string path = directory.File("checkpoint.safetensors");
  Session session = MakeSession(*device, {});
  Train(session, 2);
  const float loss = session.Evaluate(MakeBatch(9))->loss;
  REQUIRE(session.SetTrainingGraph(WithoutBlock()).ok());
  CHECK(session.Evaluate(MakeBatch(9))->loss == loss);
  REQUIRE(session.Save(path).ok());
  Session other = MakeSession(*device, {}, {.seed = 3});
  REQUIRE(other.Load(path).ok());
  REQUIRE(other.SetTrainingGraph(WithoutBlock()).ok());
  CHECK(Train(session, 1) == Train(other, 1));
  CheckSameState(session, other);
}

TEST_CASE("a graph that needs more than the budget is refused, and accepted with a larger one") {
  const auto cpu = OpenCpu();
  FaultyDevice device(*cpu);
  Session session = MakeSession(device, {.policy = "liveness"});
  Session steady = MakeSession(*cpu, {});
  TrainVaried(steady, 4, [](int i) { return i == 0 || i == 3; });
  const int64_t whole_minimum = session.planning().minimum_budget_bytes;
  Train(session, 1);
  REQUIRE(session.SetTrainingGraph(WithoutBlock()).ok());
  // Evaluation is still of the whole network, so the smallest budget lies between.
  const int64_t part_minimum = session.planning().minimum_budget_bytes;
  REQUIRE(part_minimum < whole_minimum);
  REQUIRE(session.SetBudget(part_minimum).ok());
  Train(session, 1);
  const absl::Status refused = session.SetTrainingGraph(Whole());
  CHECK(refused.code() == absl::StatusCode::kResourceExhausted);
  CHECK(std::string(refused.message()).find(std::to_string(whole_minimum)) != std::string::npos);
  Train(session, 1);
  REQUIRE(session.SetBudget(whole_minimum).ok());
  const int64_t small_arena = session.memory().arena_bytes;
  REQUIRE(session.SetTrainingGraph(Whole()).ok());
  CHECK(session.memory().arena_bytes > small_arena);
  CHECK(session.memory().arena_bytes <= whole_minimum);
  CHECK(*device.UsedBytes() == session.memory().arena_bytes);
  Train(session, 1);
  CheckSameState(steady, session);
}

TEST_CASE("a graph that is not a part of the network is refused, naming the missing tensor") {
  const auto device = OpenCpu();
  Session session = MakeSession(*device, {});
  const auto refusal = [&](const char* layer, int64_t out_features, int64_t batch) {
    Graph other({.name = "other", .batch = batch});
    other.Loss(
        other.Add(layer, FullyConnected{.out_features = out_features}, {other.Input({3, 8, 8})}),
        SoftmaxCrossEntropy{});
    const absl::Status status = session.SetTrainingGraph(other);
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  CHECK(refusal("fc9", 4, 8) == "other: small has no fc9.weight (4x3x8x8 fp32 nchw)");
  CHECK(refusal("fc", 4, 8) == "other: small has no fc.weight (4x3x8x8 fp32 nchw)");
  Graph nhwc = SmallNet(Layout::kChannelsLast);
  CHECK(session.SetTrainingGraph(nhwc).code() == absl::StatusCode::kInvalidArgument);
  Session steady = MakeSession(*device, {});
  Train(steady, 1);
  Train(session, 1);
  CheckSameState(steady, session);
}

}  // namespace neap

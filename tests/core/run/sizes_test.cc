// A network that is trained with inputs of several sizes.
#include "neap/core/graph/sizes.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "neap/core/program/passes.h"
#include "neap/core/run/session.h"
#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/join.h"
#include "neap/layers/pooling.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/memory/create_session.h"
#include "neap/memory/planner.h"
#include "tests/guarded_device.h"
#include "tests/scratch_directory.h"
#include "tests/small_training.h"

namespace neap {
namespace {

constexpr int64_t kBatch = 8, kImage = 12;

// Convolutions and a global pooling, so its parameters fit images of every size.
Graph Pooled(std::vector<GraphSize> sizes = {}) {
  Graph net({.name = "pooled", .batch = kBatch});
  std::string x = net.Input({3, kImage, kImage});
  x = net.Add("conv1", Convolution{.out_channels = 8, .kernel = 3, .padding = 1}, {x});
  x = net.Add("bn1", BatchNorm{}, {x});
  const std::string trunk = net.Add("relu1", Relu{}, {x});
  x = net.Add("conv2", Convolution{.out_channels = 8, .kernel = 3, .padding = 1}, {trunk});
  x = net.Add("relu2", Relu{}, {x});
  x = net.Add("add", Add{}, {x, trunk});
  x = net.Add("pool", GlobalAveragePool{}, {x});
  x = net.Add("fc", FullyConnected{.out_features = 4}, {x});
  net.Loss(x, SoftmaxCrossEntropy{});
  net.Sizes(std::move(sizes));
  return net;
}

const std::vector<GraphSize> kSizes = {
    {.extents = {8, 8}}, {.extents = {16, 12}, .batch = 4}, {.extents = {20, 20}, .batch = 2}};

// The network's own size, and then the others.
std::vector<GraphSize> AllSizes() {
  std::vector<GraphSize> all = {{.extents = {kImage, kImage}, .batch = kBatch}};
  for (GraphSize size : kSizes) {
    if (size.batch == 0) size.batch = kBatch;
    all.push_back(size);
  }
  return all;
}

Batch BatchOf(const GraphSize& size, uint64_t seed) {
  Batch batch;
  batch.height = size.extents[0];
  batch.width = size.extents[1];
  const Batch values = MakeBatch(seed);
  for (int64_t i = 0; i < size.batch * 3 * batch.height * batch.width; ++i)
    batch.images.push_back(values.images[static_cast<size_t>(i) % values.images.size()]);
  for (int64_t i = 0; i < size.batch; ++i) batch.labels.push_back(static_cast<int32_t>(i % 4));
  return batch;
}

// Trains `steps` steps, the i-th in the size i * 5 / 2 % 4, so all are trained.
std::vector<float> TrainSizes(Session& session, int steps) {
  std::vector<float> losses;
  const std::vector<GraphSize> sizes = AllSizes();
  for (int i = 0; i < steps; ++i) {
    const GraphSize& size = sizes[static_cast<size_t>(i * 5 / 2) % sizes.size()];
    const absl::StatusOr<float> loss = session.TrainStep(BatchOf(size, static_cast<uint64_t>(i)));
    REQUIRE_MESSAGE(loss.ok(), loss.status().ToString());
    losses.push_back(*loss);
    const MemoryUse use = session.memory();
    CHECK(use.measured_peak_bytes == use.predicted_peak_bytes);
  }
  return losses;
}

// The same by a session for each step, of one size, which hand their state on in a file. Returns
// the losses, and loads the last state into `last`.
std::vector<float> TrainSeparately(Device& device, int steps, const std::string& path,
                                   Session& last) {
  std::vector<float> losses;
  const std::vector<GraphSize> sizes = AllSizes();
  REQUIRE(last.Save(path).ok());
  for (int i = 0; i < steps; ++i) {
    const GraphSize& size = sizes[static_cast<size_t>(i * 5 / 2) % sizes.size()];
    Session session = Opened(*WithSize(Pooled(), size), device);
    REQUIRE(session.Load(path).ok());
    const Batch sized = BatchOf(size, static_cast<uint64_t>(i));
    losses.push_back(*session.TrainStep({.images = sized.images, .labels = sized.labels}));
    REQUIRE(session.Save(path).ok());
  }
  REQUIRE(last.Load(path).ok());
  return losses;
}

// Parameters, running statistics and momenta: what a file has.
void CheckSameInFiles(Session& a, Session& b) {
  const Plan plan = a.plan();
  for (const PlanTensor& tensor : plan.tensors) {
    if (!IsPersistent(tensor.role) || tensor.name == "loss.metrics") continue;
    CAPTURE(tensor.name);
    CHECK(SameBits(*a.Values(tensor.name), *b.Values(tensor.name)));
  }
}

}  // namespace

TEST_CASE("several sizes train as separate networks would, under every policy and budget") {
  const auto device = OpenCpu();
  const ScratchDirectory directory;
  Session reference = Opened(Pooled(), *device);
  const std::vector<float> expected =
      TrainSeparately(*device, 8, directory.File("state.safetensors"), reference);
  for (const char* policy :
       {"keep-all", "liveness", "vdnn-all", "tensor-cache", "superneurons", "auto"}) {
    CAPTURE(policy);
    Session natural = Opened(Pooled(kSizes), *device, {.policy = policy});
    CHECK(TrainSizes(natural, 8) == expected);
    CheckSameInFiles(reference, natural);
    const int64_t minimum = natural.planning().minimum_budget_bytes;
    Session tight = Opened(Pooled(kSizes), *device, {.budget_bytes = minimum, .policy = policy});
    CHECK(tight.memory().arena_bytes <= minimum);
    CHECK(TrainSizes(tight, 8) == expected);
    CheckSameInFiles(reference, tight);
  }
}

TEST_CASE("all sizes are planned and made before the first step, in one arena") {
  const auto cpu = OpenCpu();
  GuardedDevice device(*cpu);
  Session session = Opened(Pooled(kSizes), device);
  CHECK(session.executables().made == 5);  // four sizes, and evaluation
  const int64_t plans = session.plan_cache().misses;
  const int allocations = device.allocations();
  TrainSizes(session, 8);
  CHECK(session.executables().made == 5);
  CHECK(session.executables().resumed > 0);
  CHECK(session.plan_cache().misses == plans);
  CHECK(device.allocations() == allocations);
  CHECK(device.GuardsIntact());
}

TEST_CASE("sizes follow each other with two steps in flight") {
  const auto device = OpenCpu();
  Session steady = Opened(Pooled(kSizes), *device);
  Session session = Opened(Pooled(kSizes), *device);
  const std::vector<float> expected = TrainSizes(steady, 8);
  std::vector<float> losses;
  const std::vector<GraphSize> sizes = AllSizes();
  for (int i = 0; i < 8; ++i) {
    if (i >= 2) losses.push_back(session.Finish()->loss);
    const GraphSize& size = sizes[static_cast<size_t>(i * 5 / 2) % sizes.size()];
    REQUIRE(session.Begin(BatchOf(size, static_cast<uint64_t>(i))).ok());
  }
  while (losses.size() < 8) losses.push_back(session.Finish()->loss);
  CHECK(losses == expected);
  CheckSameState(steady, session);
}

TEST_CASE("a change of the budget keeps all sizes") {
  const auto device = OpenCpu();
  Session steady = Opened(Pooled(kSizes), *device);
  Session session = Opened(Pooled(kSizes), *device, {.policy = "superneurons"});
  const int64_t minimum = session.planning().minimum_budget_bytes;
  for (const bool waits : {true, false}) {
    CHECK(TrainSizes(session, 3) == TrainSizes(steady, 3));
    REQUIRE(session.SetBudgetAsync(waits ? minimum : 2 * minimum).ok());
    if (waits) REQUIRE(session.AwaitBudget().ok());
    for (int i = 0; session.budget_pending() && i < 1000000; ++i) {
      TrainSizes(session, 1);
      TrainSizes(steady, 1);
    }
    REQUIRE(session.AwaitBudget().ok());
    const int64_t made = session.executables().made;
    CHECK(TrainSizes(session, 8) == TrainSizes(steady, 8));
    CHECK(session.executables().made == made);
    CHECK(session.memory().arena_bytes <= (waits ? minimum : 2 * minimum));
  }
  CHECK(session.SetBudget(minimum - 1).code() == absl::StatusCode::kResourceExhausted);
  CheckSameState(steady, session);
}

TEST_CASE("evaluation is that of the network's own size") {
  const auto device = OpenCpu();
  Session session = Opened(Pooled(kSizes), *device);
  Session plain = Opened(Pooled(), *device);
  const Batch own = BatchOf(AllSizes()[0], 3);
  CHECK(session.Evaluate(own)->loss == plain.Evaluate(own)->loss);
  REQUIRE(session.TrainStep(BatchOf(AllSizes()[2], 4)).ok());
  CHECK(session.Evaluate(own).ok());
  const absl::StatusOr<StepResult> other = session.Evaluate(BatchOf(AllSizes()[1], 3));
  CHECK(other.status().code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE(
    "a step of a size that the session does not train is refused, naming those that it does") {
  const auto device = OpenCpu();
  Session session = Opened(Pooled({{.extents = {8, 8}, .batch = 2}}), *device);
  const absl::StatusOr<float> loss =
      session.TrainStep(BatchOf({.extents = {10, 10}, .batch = 2}, 1));
  CHECK(loss.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(std::string(loss.status().message()) ==
        "pooled: a step is given input 2x3x10x10; the session trains input 8x3x12x12 or input "
        "2x3x8x8");
  const std::vector<float> values(2 * 3 * 8 * 8);
  const std::vector<int32_t> labels = {0, 1};
  CHECK(session
            .Step({{.name = "input", .floats = values, .shape = {2, 3, 8, 8}},
                   {.name = "labels", .integers = labels}})
            .ok());
  CHECK(!session
             .Step({{.name = "input", .floats = values, .shape = {2, 3, 4, 16}},
                    {.name = "labels", .integers = labels}})
             .ok());
}

TEST_CASE("a step without a stated size has the network's own, whatever was trained before") {
  const auto device = OpenCpu();
  const GraphSize flat = {.extents = {16, 9}, .batch = kBatch};  // as many values as 12x12
  Session stated = Opened(Pooled({flat}), *device);
  Session unstated = Opened(Pooled({flat}), *device);
  for (int i = 0; i < 4; ++i) {
    const Batch batch = BatchOf(i % 2 == 0 ? flat : AllSizes()[0], static_cast<uint64_t>(i));
    REQUIRE(stated.TrainStep(batch).ok());
    const bool states_size = i % 2 == 0;
    const Batch without = {.images = batch.images, .labels = batch.labels};
    REQUIRE(unstated.TrainStep(states_size ? batch : without).ok());
  }
  CheckSameState(stated, unstated);
}

TEST_CASE("another training graph has no sizes, and the family comes back with the network's own") {
  const auto device = OpenCpu();
  Session session = Opened(Pooled(kSizes), *device);
  Graph other({.name = "other", .batch = kBatch});
  const Graph net = Pooled();
  for (const GraphLayer& layer : net.layers()) other.Add(layer);
  REQUIRE(session.SetTrainingGraph(other).ok());
  CHECK(session.TrainStep(BatchOf(AllSizes()[0], 1)).ok());
  const absl::Status refused = session.TrainStep(BatchOf(AllSizes()[1], 1)).status();
  CHECK(
      std::string(refused.message()) ==
      "other: a step is given input 8x3x8x8, but the graph that is trained takes input 8x3x12x12");
  REQUIRE(session.SetTrainingGraph(Pooled(kSizes)).ok());
  CHECK(session.TrainStep(BatchOf(AllSizes()[1], 1)).ok());
}

TEST_CASE("a session for inference alone plans no sizes") {
  const auto device = OpenCpu();
  Session session = Opened(Pooled(kSizes), *device, {}, {.inference_only = true});
  CHECK(session.executables().made == 2);
  CHECK(session.Evaluate(BatchOf(AllSizes()[0], 1)).ok());
}

TEST_CASE("a batch that fills the budget is the largest that needs no moves") {
  const auto device = OpenCpu();
  const auto natural_peak = [&](const std::vector<int64_t>& extents, int64_t batch) {
    const Graph sized = WithSize(Pooled(), {.extents = extents, .batch = batch}).value();
    const Program program = Lower(sized, {}, device->description()).value();
    return MakePlan(program, {.strict = true}, device->description(), device->backend())
        .value()
        .plan.peak_bytes;
  };
  const int64_t budget = natural_peak({kImage, kImage}, kBatch);
  constexpr int64_t kFill = GraphSize::kFillsBudget;
  const std::vector<GraphSize> filling = {{.extents = {4, 4}, .batch = kFill},
                                          {.extents = {8, 16}, .batch = kFill},
                                          {.extents = {36, 36}, .batch = kFill}};
  Session session = Opened(Pooled(filling), *device, {.budget_bytes = budget}, {});
  REQUIRE(session.sizes().size() == filling.size());
  std::vector<float> losses;
  for (const GraphSize& size : session.sizes()) {
    CAPTURE(size.batch);
    if (size.batch > 1) CHECK(natural_peak(size.extents, size.batch) <= budget);
    CHECK(natural_peak(size.extents, size.batch + size.batch / 64 + 1) > budget);
    losses.push_back(session.TrainStep(BatchOf(size, 3)).value());
    CHECK(session.memory().measured_peak_bytes <= budget);
  }
  CHECK(session.sizes()[0].batch > 4 * kBatch);
  CHECK(session.sizes()[2].batch == 1);  // which moves
  Session given = Opened(Pooled(session.sizes()), *device, {}, {});
  for (size_t i = 0; i < losses.size(); ++i)
    CHECK(given.TrainStep(BatchOf(session.sizes()[i], 3)).value() == losses[i]);
}

TEST_CASE("sizes that the network cannot have are refused") {
  const auto device = OpenCpu();
  const auto refusal = [&](GraphSize size) {
    return CreateSession(Pooled({std::move(size)}), *device, {}).status();
  };
  CHECK(std::string(refusal({.extents = {8}}).message()) ==
        "pooled: a size has 2 positive extents, as its first feed (12x12), and a batch that is not "
        "negative; this one is 8 with a batch of 0");
  CHECK(!refusal({.extents = {8, 0}}).ok());
  CHECK(!refusal({.extents = {8, 8}, .batch = -2}).ok());
  CHECK(std::string(refusal({.extents = {8, 8}, .batch = GraphSize::kFillsBudget}).message()) ==
        "pooled: without a budget, no batch of a size fills it");
  // The parameters of a fully connected layer are of one size.
  Graph fixed = SmallNet();
  fixed.Sizes({{.extents = {16, 16}}});
  const absl::Status status = CreateSession(fixed, *device, {}).status();
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK(std::string(status.message()).find("fc.weight") != std::string::npos);
}

TEST_CASE("labels of pixels have the size of the images") {
  Graph net({.name = "pixels", .batch = 2});
  const std::string x =
      net.Add("conv", Convolution{.out_channels = 3, .kernel = 1}, {net.Input({3, 6, 8})});
  net.PixelLoss(x, SoftmaxCrossEntropy{}, {6, 8});
  const absl::StatusOr<Graph> sized = WithSize(net, {.extents = {4, 10}, .batch = 5});
  REQUIRE(sized.ok());
  const absl::StatusOr<ResolvedGraph> resolved = Resolve(*sized, Mode::kTraining);
  REQUIRE_MESSAGE(resolved.ok(), resolved.status().ToString());
  for (const ResolvedLayer& layer : resolved->layers) {
    if (layer.name == "labels") CHECK(layer.spec.output.shape == Shape{5, 4, 10});
    if (layer.name == "input") CHECK(layer.spec.output.shape == Shape{5, 3, 4, 10});
  }
}

}  // namespace neap

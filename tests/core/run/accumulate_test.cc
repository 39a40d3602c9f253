// Gradients that are summed over several batches before an update.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "neap/core/run/session.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/pooling.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/memory/create_session.h"
#include "tests/guarded_device.h"
#include "tests/scratch_directory.h"
#include "tests/small_training.h"

namespace neap {
namespace {

constexpr int64_t kBatches = 4, kImages = 8;

using NetOptions = BlockOptions;

// A block whose layers share a parameter.
Graph Net(NetOptions options = {}) {
  options.shares = true;
  return BlockNet(options);
}

uint64_t SeedOf(int64_t step, int64_t index) {
  return static_cast<uint64_t>(step * kBatches + index);
}

Batch WholeBatch(int64_t step) {
  Batch whole;
  for (int64_t index = 0; index < kBatches; ++index) {
    const Batch part = MakeBatch(SeedOf(step, index));
    whole.images.insert(whole.images.end(), part.images.begin(), part.images.end());
    whole.labels.insert(whole.labels.end(), part.labels.begin(), part.labels.end());
  }
  return whole;
}

// Returns the mean loss of each step.
std::vector<float> TrainAccumulated(Session& session, int64_t steps) {
  std::vector<float> losses;
  for (int64_t end = session.step() + steps; session.step() < end;) {
    const int64_t step = session.step();
    float loss = 0;
    for (int64_t index = 0; index < kBatches; ++index) {
      const absl::StatusOr<StepResult> result = session.Accumulate(MakeBatch(SeedOf(step, index)));
      REQUIRE_MESSAGE(result.ok(), result.status().ToString());
      CHECK(result->step == step);
      loss += result->loss / kBatches;
      const MemoryUse use = session.memory();
      CHECK(use.measured_peak_bytes == use.predicted_peak_bytes);
    }
    losses.push_back(loss);
    const absl::StatusOr<StepResult> updated = session.Update();
    REQUIRE_MESSAGE(updated.ok(), updated.status().ToString());
    CHECK(updated->step == step);
  }
  return losses;
}

// Of all parameters and of what the optimizer keeps, but not of the gradients.
void CheckSameParameters(Session& a, Session& b) {
  const Plan plan = b.plan();
  int64_t compared = 0;
  for (const PlanTensor& tensor : plan.tensors) {
    if (!IsPersistent(tensor.role) || tensor.name == "loss.metrics") continue;
    CAPTURE(tensor.name);
    CHECK(SameBits(*a.Values(tensor.name), *b.Values(tensor.name)));
    ++compared;
  }
  CHECK(compared >= 10);
}

void CheckEqualsOneBatch(const NetOptions& options, const TrainingOptions& training,
                         PlannerOptions planning) {
  const auto device = OpenCpu();
  TrainingOptions accumulating = training;
  accumulating.accumulate = kBatches;
  NetOptions of_whole = options;
  of_whole.batch = kBatches * kImages;
  PlannerOptions divided = planning;
  divided.sub_batches = kBatches;
  Session whole = Opened(Net(of_whole), *device, divided, training);
  std::vector<float> expected;
  for (int64_t step = 0; step < 3; ++step) expected.push_back(*whole.TrainStep(WholeBatch(step)));

  Session natural = Opened(Net(options), *device, planning, accumulating);
  const std::vector<float> losses = TrainAccumulated(natural, 3);
  CheckSameParameters(natural, whole);
  for (size_t i = 0; i < losses.size(); ++i)
    CHECK(losses[i] == doctest::Approx(expected[i]).epsilon(1e-5));
  planning.budget_bytes = natural.planning().minimum_budget_bytes;
  Session tight = Opened(Net(options), *device, planning, accumulating);
  CHECK(tight.memory().arena_bytes <= planning.budget_bytes);
  CHECK(TrainAccumulated(tight, 3) == losses);
  CheckSameState(natural, tight);
}

constexpr const char* kPolicies[] = {"keep-all",     "liveness",     "vdnn-all", "vdnn-conv",
                                     "tensor-cache", "superneurons", "auto"};

}  // namespace

TEST_CASE("several batches train as the sub-batches of one, bit for bit, under all policies") {
  for (const char* policy : kPolicies) {
    CAPTURE(policy);
    CheckEqualsOneBatch({}, {}, {.policy = policy});
  }
}

TEST_CASE("several batches train as the sub-batches of one with every optimizer and type") {
  const Optimizer adamw = {.rule = Optimizer::Rule::kAdamW};
  const Optimizer clipped = {.clip_norm = 0.5F};
  const Optimizer averaged = {.average_decay = 0.9F};
  for (const Optimizer& optimizer : {adamw, clipped, averaged}) {
    CAPTURE(optimizer.clip_norm);
    CheckEqualsOneBatch({}, {.optimizer = optimizer}, {.policy = "superneurons"});
  }
  for (const DType dtype : {DType::kBf16, DType::kFp16}) {
    CAPTURE(Name(dtype));
    CheckEqualsOneBatch({.dtype = dtype}, {}, {.policy = "superneurons"});
  }
}

TEST_CASE("a batch that is summed may itself be run in sub-batches") {
  const auto device = OpenCpu();
  Session whole =
      Opened(Net({.batch = kBatches * kImages}), *device, {.sub_batches = 2 * kBatches});
  Session session = Opened(Net(), *device, {.sub_batches = 2}, {.accumulate = kBatches});
  for (int64_t step = 0; step < 2; ++step) REQUIRE(whole.TrainStep(WholeBatch(step)).ok());
  TrainAccumulated(session, 2);
  CheckSameParameters(session, whole);
}

TEST_CASE("gradients can be dropped before their update") {
  const auto device = OpenCpu();
  const ScratchDirectory directory;
  Session session = Opened(Net({.dropout = false}), *device, {}, {.accumulate = kBatches});
  Session steady = Opened(Net({.dropout = false}), *device, {}, {.accumulate = kBatches});
  REQUIRE(session.Accumulate(MakeBatch(11)).ok());
  CHECK(session.accumulated() == 1);
  REQUIRE(session.Discard().ok());
  CHECK(session.accumulated() == 0);
  CHECK(session.Save(directory.File("state")).ok());
  TrainAccumulated(session, 2);
  TrainAccumulated(steady, 2);
  CheckSameState(steady, session);
}

TEST_CASE("a fp16 step that is skipped restores the running statistics of all its batches") {
  const auto device = OpenCpu();
  Session session = Opened(Net({.dtype = DType::kFp16, .dropout = false, .batch_norm = true}),
                           *device, {}, {.accumulate = 2});
  REQUIRE(session.Accumulate(MakeBatch(1)).ok());
  REQUIRE(session.Accumulate(MakeBatch(2)).ok());
  REQUIRE(session.Update().ok());
  const std::vector<float> before = *session.Values("bn1.running_mean");
  Batch large = MakeBatch(3);
  for (float& value : large.images) value *= 6e4F;  // infinite in fp16
  REQUIRE(session.Accumulate(MakeBatch(4)).ok());
  CHECK(*session.Values("bn1.running_mean") != before);
  REQUIRE(session.Accumulate(large).ok());
  REQUIRE(session.Update()->skipped);
  CHECK(*session.Values("bn1.running_mean") == before);
}

TEST_CASE("running statistics keep what dropped batches changed when a later step is skipped") {
  const auto device = OpenCpu();
  Session session = Opened(Net({.dtype = DType::kFp16, .dropout = false, .batch_norm = true}),
                           *device, {}, {.accumulate = 2});
  const std::vector<float> before = *session.Values("bn1.running_mean");
  REQUIRE(session.Accumulate(MakeBatch(1)).ok());
  REQUIRE(session.Discard().ok());
  const std::vector<float> dropped = *session.Values("bn1.running_mean");
  CHECK(dropped != before);
  Batch large = MakeBatch(3);
  for (float& value : large.images) value *= 6e4F;  // infinite in fp16
  REQUIRE(session.Accumulate(MakeBatch(4)).ok());
  REQUIRE(session.Accumulate(large).ok());
  REQUIRE(session.Update()->skipped);
  CHECK(*session.Values("bn1.running_mean") == dropped);
}

TEST_CASE("labels that are unknown weigh nothing, and auxiliary losses are summed, too") {
  const auto device = OpenCpu();
  const auto net = [](int64_t batch) {
    Graph graph({.name = "aux", .batch = batch});
    const std::string x = graph.Add("pool", MaxPool{}, {graph.Input({3, 8, 8})});
    graph.Loss(graph.Add("fc", FullyConnected{.out_features = 4}, {x}), SoftmaxCrossEntropy{});
    graph.AuxiliaryLoss(graph.Add("aux", FullyConnected{.out_features = 4}, {x}),
                        SoftmaxCrossEntropy{.weight = 0.3F});
    return graph;
  };
  Batch whole = WholeBatch(0);
  for (size_t i = 0; i < whole.labels.size(); i += 3) whole.labels[i] = kNoLabel;
  whole.size = kBatches * kImages;
  Session at_once = Opened(net(whole.size), *device, {.sub_batches = kBatches});
  Session summed = Opened(net(kImages), *device, {}, {.accumulate = kBatches});
  REQUIRE(at_once.TrainStep(whole).ok());
  for (int64_t i = 0; i < kBatches; ++i)
    REQUIRE(summed.Accumulate(PartOf(whole, i * kImages, kImages)).ok());
  REQUIRE(summed.Update().ok());
  for (const char* name : {"fc.weight", "fc.bias", "aux.weight", "aux.bias"})
    CHECK(SameBits(*at_once.Values(name), *summed.Values(name)));
}

TEST_CASE("parameters on the host are updated with sums there") {
  CheckEqualsOneBatch({}, {}, {.policy = "superneurons", .offload_params = true});
}

TEST_CASE("without random numbers, all batches but the first have one executable") {
  const auto cpu = OpenCpu();
  for (const bool dropout : {false, true}) {
    GuardedDevice device(*cpu);
    Session session = Opened(Net({.dropout = dropout}), device, {}, {.accumulate = kBatches});
    // The first batch, the others, the update, evaluation.
    CHECK(session.executables().made == (dropout ? 2 + kBatches : 4));
    const int allocations = device.allocations();
    TrainAccumulated(session, 2);
    CHECK(session.executables().made == (dropout ? 2 + kBatches : 4));
    // Batches that follow each other in one executable do not change it.
    CHECK(session.executables().resumed == (dropout ? 2 * kBatches + 1 : 5));
    CHECK(device.allocations() == allocations);
    CHECK(device.GuardsIntact());
  }
}

TEST_CASE("the plan and its times are those of the first batch at any moment") {
  const auto device = OpenCpu();
  Session session = Opened(Net({.dropout = true}), *device, {}, {.accumulate = kBatches});
  const Plan first = session.plan();
  const double predicted_us = session.predicted().total_us;
  const auto check = [&] {
    CHECK(session.plan() == first);
    CHECK(session.predicted().total_us == predicted_us);
  };
  for (int64_t batch = 0; batch < kBatches; ++batch) {
    REQUIRE(session.Accumulate(MakeBatch(SeedOf(0, batch))).ok());
    check();
  }
  REQUIRE(session.Update().ok());
  check();
}

TEST_CASE("batch norms take the statistics of each batch, and the gradient is that of the mean") {
  const auto device = OpenCpu();
  const NetOptions options = {.dropout = false, .batch_norm = true};
  Session session = Opened(Net(options), *device, {}, {.accumulate = 2});
  Session first = Opened(Net(options), *device, {}, {.accumulate = 2});
  Session second = Opened(Net(options), *device, {}, {.accumulate = 2});
  REQUIRE(session.Accumulate(MakeBatch(1)).ok());
  REQUIRE(session.Accumulate(MakeBatch(2)).ok());
  REQUIRE(first.Accumulate(MakeBatch(1)).ok());
  REQUIRE(second.Accumulate(MakeBatch(2)).ok());
  for (const char* name : {"conv1.weight.grad", "bn1.weight.grad", "conv2.weight.grad",
                           "conv2.bias.grad", "conv3.bias.grad", "fc.bias.grad"}) {
    CAPTURE(name);
    const std::vector<float> sum = *session.Values(name), of_first = *first.Values(name),
                             of_second = *second.Values(name);
    float largest = 0;
    for (size_t i = 0; i < sum.size(); ++i) {
      CHECK(sum[i] == doctest::Approx(of_first[i] + of_second[i]).epsilon(1e-5).scale(1e-3));
      largest = std::max(largest, std::abs(sum[i]));
    }
    CHECK(largest > 1e-4F);
  }
}

TEST_CASE("batches may be in flight while the parameters are updated") {
  const auto device = OpenCpu();
  Session steady = Opened(Net(), *device, {}, {.accumulate = kBatches});
  Session session = Opened(Net(), *device, {.policy = "superneurons"}, {.accumulate = kBatches});
  TrainAccumulated(steady, 3);
  int64_t in_flight = 0;
  for (int64_t step = 0; step < 3; ++step) {
    for (int64_t index = 0; index < kBatches; ++index) {
      if (in_flight == 2) REQUIRE(session.Finish().ok());
      if (in_flight < 2) ++in_flight;
      REQUIRE(session.Begin(MakeBatch(SeedOf(step, index))).ok());
    }
    REQUIRE(session.Update().ok());
  }
  REQUIRE(session.Finish().ok());
  REQUIRE(session.Finish().ok());
  CHECK(session.step() == 3);
  CheckSameState(steady, session);
}

TEST_CASE("a checkpoint between two updates continues with the same bits") {
  const auto device = OpenCpu();
  const ScratchDirectory directory;
  const std::string path = directory.File("state.safetensors");
  Session session = Opened(Net(), *device, {}, {.accumulate = kBatches});
  TrainAccumulated(session, 1);
  REQUIRE(session.Save(path).ok());
  REQUIRE(session.Accumulate(MakeBatch(7)).ok());
  const absl::Status early = session.Save(path);
  CHECK(early.code() == absl::StatusCode::kFailedPrecondition);
  CHECK(std::string(early.message()).find("those of 1 batches wait") != std::string::npos);
  REQUIRE(session.Load(path).ok());  // forgets the batch
  Session other = Opened(Net(), *device, {}, {.accumulate = kBatches});
  REQUIRE(other.Load(path).ok());
  CHECK(TrainAccumulated(session, 2) == TrainAccumulated(other, 2));
  CheckSameParameters(session, other);
}

TEST_CASE("a change of the budget between two batches keeps the sums") {
  const auto device = OpenCpu();
  Session steady = Opened(Net(), *device, {}, {.accumulate = 2});
  Session session = Opened(Net(), *device, {.policy = "superneurons"}, {.accumulate = 2});
  const int64_t minimum = session.planning().minimum_budget_bytes;
  for (Session* each : {&steady, &session}) {
    REQUIRE(each->Accumulate(MakeBatch(1)).ok());
    if (each == &session) REQUIRE(each->SetBudget(minimum).ok());
    CHECK(each->Evaluate(MakeBatch(3)).ok());
    REQUIRE(each->Accumulate(MakeBatch(2)).ok());
    if (each == &session) {
      REQUIRE(each->SetBudgetAsync(2 * minimum).ok());
      REQUIRE(each->AwaitBudget().ok());
    }
    REQUIRE(each->Update().ok());
  }
  CheckSameState(steady, session);
}

TEST_CASE("a fp16 step whose sums are not finite is skipped") {
  const auto device = OpenCpu();
  Session session =
      Opened(Net({.dtype = DType::kFp16, .dropout = false}), *device, {}, {.accumulate = 2});
  const std::vector<float> before = *session.Values("fc.weight");
  Batch large = MakeBatch(1);
  for (float& value : large.images) value *= 6e4F;  // infinite in fp16
  REQUIRE(session.Accumulate(MakeBatch(2)).ok());
  REQUIRE(session.Accumulate(large).ok());
  const absl::StatusOr<StepResult> skipped = session.Update();
  REQUIRE(skipped.ok());
  CHECK(skipped->skipped);
  CHECK(skipped->skipped_steps == 1);
  CHECK(skipped->loss_scale < skipped->used_loss_scale);
  CHECK(*session.Values("fc.weight") == before);
  REQUIRE(session.Accumulate(MakeBatch(2)).ok());
  REQUIRE(session.Accumulate(MakeBatch(3)).ok());
  const absl::StatusOr<StepResult> taken = session.Update();
  REQUIRE(taken.ok());
  CHECK(!taken->skipped);
  CHECK(taken->used_loss_scale == skipped->loss_scale);
  CHECK(*session.Values("fc.weight") != before);
}

TEST_CASE("calls that do not fit the number of batches are refused") {
  const auto device = OpenCpu();
  constexpr auto kRefused = absl::StatusCode::kFailedPrecondition;
  Session session = Opened(Net(), *device, {}, {.accumulate = 2});
  CHECK(session.TrainStep(MakeBatch(1)).status().code() == kRefused);
  CHECK(session.Update().status().code() == kRefused);
  REQUIRE(session.Accumulate(MakeBatch(1)).ok());
  CHECK(session.Update().status().code() == kRefused);
  CHECK(session.SetTrainingGraph(Net()).code() == kRefused);
  REQUIRE(session.Accumulate(MakeBatch(2)).ok());
  CHECK(session.Accumulate(MakeBatch(3)).status().code() == kRefused);
  CHECK(session.Update().ok());
  Session plain = Opened(Net(), *device);
  CHECK(plain.Accumulate(MakeBatch(1)).status().code() == kRefused);
  CHECK(plain.Update().status().code() == kRefused);
  CHECK(CreateSession(Net(), *device, {}, {.accumulate = 0}).status().code() ==
        absl::StatusCode::kInvalidArgument);
  Graph sizes = Net();
  sizes.Sizes({{.extents = {8, 8}, .batch = 2}});
  CHECK(CreateSession(sizes, *device, {}, {.accumulate = 2}).status().code() ==
        absl::StatusCode::kInvalidArgument);
}

}  // namespace neap

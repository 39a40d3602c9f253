// Training in sub-batches is the same training: for each number of them the same bits whatever the
// plan, and with another number the same but for the order of sums.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "neap/core/base/file.h"
#include "neap/core/base/philox.h"
#include "neap/core/program/program.h"
#include "neap/core/run/file_planner.h"
#include "neap/core/run/session.h"
#include "neap/core/step/operands.h"
#include "neap/core/verifier/verifier.h"
#include "neap/layers/activation.h"
#include "neap/layers/convolution.h"
#include "neap/layers/cpu/cpu_device.h"
#include "neap/layers/dropout.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/pooling.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/memory/create_session.h"
#include "neap/memory/planner.h"
#include "tests/own_memory_device.h"
#include "tests/random_graph.h"
#include "tests/random_resizes.h"
#include "tests/scratch_directory.h"
#include "tests/small_training.h"

namespace neap {
namespace {

constexpr int kDividedSteps = 3;
constexpr TrainingOptions kDividedTraining = {.learning_rate = {.base = 1e-3F}};

using State = std::map<std::string, std::vector<float>>;  // by name

Batch DividedBatch(uint64_t seed, int64_t size) {
  Batch batch = {.size = size};
  const auto images = static_cast<uint64_t>(size);
  for (uint64_t i = 0; i < images * 3 * 8 * 8; ++i)
    batch.images.push_back(2 * ToUnitFloat(Philox({seed, 1, i})[0]) - 1);
  for (uint64_t i = 0; i < images; ++i)
    batch.labels.push_back(static_cast<int32_t>(Philox({seed, 2, i})[0] % 4));
  return batch;
}

// Losses, numbers of correct labels, and every persistent tensor after a few steps.
State Train(const Graph& graph, Device& device, const PlannerOptions& options) {
  Session session = Opened(graph, device, options, kDividedTraining);
  CHECK(session.plan().sub_batches == options.sub_batches);
  State state;
  for (uint64_t step = 0; step < kDividedSteps; ++step) {
    REQUIRE(session.Begin(DividedBatch(step, graph.options().batch)).ok());
    const absl::StatusOr<StepResult> result = session.Finish();
    REQUIRE_MESSAGE(result.ok(), result.status().ToString());
    state["loss"].push_back(result->loss);
    state["correct"].push_back(static_cast<float>(result->correct));
  }
  CHECK(session.memory().measured_peak_bytes == session.memory().predicted_peak_bytes);
  for (const PlanTensor& tensor : session.plan().tensors) {
    if (IsPersistent(tensor.role)) state[tensor.name] = *session.Values(tensor.name);
  }
  return state;
}

// The largest difference of an element, relative to the largest element of its tensor or to 1e-3.
double DividedDifference(const State& a, const State& b) {
  double largest = 0;
  for (const auto& [name, values] : a) {
    const std::vector<float>& others = b.at(name);
    REQUIRE(values.size() == others.size());
    double scale = 1e-3;
    for (float value : values) scale = std::max(scale, std::abs(static_cast<double>(value)));
    for (size_t i = 0; i < values.size(); ++i) {
      const double difference = static_cast<double>(values[i]) - static_cast<double>(others[i]);
      largest = std::max(largest, std::abs(difference) / scale);
    }
  }
  return largest;
}

// A network without randomness or joins, whose activations dwarf its parameters.
Graph ChainNet(int64_t batch = 8) {
  Graph net({.name = "chain", .batch = batch});
  std::string x = net.Input({3, 8, 8});
  for (const char* i : {"1", "2", "3"}) {
    x = net.Add(std::string("conv") + i, Convolution{.out_channels = 8, .kernel = 3, .padding = 1},
                {x});
    x = net.Add(std::string("relu") + i, Relu{}, {x});
  }
  x = net.Add("pool", MaxPool{}, {x});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 4}, {x}), SoftmaxCrossEntropy{});
  return net;
}

// What a forward step of dropout makes of ones.
std::vector<float> MaskOf(const StepSignature& signature, Device& device) {
  std::vector<float> x(static_cast<size_t>(signature.Spec(operands::X()).elements()), 1.0F);
  std::vector<float> y(x.size());
  IterationScalars scalars = {.step = 5, .seed = 7};
  std::vector<void*> addresses;
  for (const OperandSpec& operand : signature.operands) {
    if (operand.operand == operands::X()) addresses.push_back(x.data());
    if (operand.operand == operands::Y()) addresses.push_back(y.data());
    if (operand.operand == operands::Iteration()) addresses.push_back(&scalars);
  }
  const auto engines = device.backend().Engines(signature).value();
  const auto kernel = device.backend().MakeKernel(signature, engines.front().id).value();
  REQUIRE(kernel->Run({.operands = addresses}).ok());
  REQUIRE(device.Synchronize().ok());
  return y;
}

std::vector<float> MasksOf(const Graph& graph, int64_t sub_batches, Device& device) {
  const Program program = BuildProgram(graph, {.sub_batches = sub_batches}).value();
  std::vector<float> masks;
  for (const Step& step : program.steps) {
    if (program.StepType(step) != Dropout::kType || step.phase != Phase::kForward) continue;
    const std::vector<float> part = MaskOf(program.Signature(step), device);
    masks.insert(masks.end(), part.begin(), part.end());
  }
  return masks;
}

}  // namespace

TEST_CASE("random networks in sub-batches train to the same bits whatever the plan") {
  const std::unique_ptr<CpuDevice> cpu = OpenCpu();
  constexpr DType kTypes[] = {DType::kFp32, DType::kBf16, DType::kFp16};
  constexpr const char* kPolicies[] = {"auto", "tensor-cache", "superneurons",
                                       "chen", "cost-aware",   "vdnn-all"};
  // Rounding differs where sums do: in 16 bits also that of activations' gradients.
  constexpr double kTolerance[] = {1e-4, 5e-2, 2e-2};
  const uint32_t seeds = testing::RandomSeeds(40);
  for (uint32_t seed = 0; seed < seeds; ++seed) {
    CAPTURE(seed);
    const size_t type = seed % 3;
    const bool divides = seed % 2 == 0;  // else the last part is shorter: 3 + 2, 2 + 2 + 1
    const Graph net = testing::RandomGraph(
        seed, {.batch = divides ? 4 : 5,
               .batch_norm = false,
               .image_norms = seed % 3 != 1,
               .attention = seed % 4 == 2,
               .dtype = kTypes[type],
               .layout = seed % 5 == 4 ? Layout::kChannelsLast : Layout::kChannelsFirst,
               .residual = seed % 7 == 1,
               .dense = seed % 7 == 2,
               .mobile = seed % 7 == 3,
               .auxiliary = seed % 4 == 1,
               .shares = seed % 3 == 1});
    const Graph graph = seed % 7 == 4 ? testing::WithResizes(net, seed) : net;
    const State whole = Train(graph, *cpu, {.policy = "keep-all", .sub_batches = 1});
    for (const int64_t sub_batches : {2, divides ? 4 : 3}) {
      CAPTURE(sub_batches);
      const PlannerOptions unmanaged = {
          .policy = "keep-all", .sub_batches = sub_batches, .in_place = false};
      const State reference = Train(graph, *cpu, unmanaged);
      CHECK(DividedDifference(whole, reference) < kTolerance[type]);
      // One of the policies, in turn, with bytes to spare and with none.
      PlannerOptions options = {
          .policy = kPolicies[(seed + static_cast<uint32_t>(sub_batches)) % std::size(kPolicies)],
          .sub_batches = sub_batches};
      CAPTURE(options.policy);
      if (seed % 4 < 2) {
        options.budget_bytes =
            Opened(graph, *cpu, options, kDividedTraining).planning().minimum_budget_bytes;
      }
      CHECK(Train(graph, *cpu, options) == reference);
    }
  }
}

TEST_CASE("dropout has the masks of the whole batch, whatever the number of sub-batches") {
  const std::unique_ptr<CpuDevice> cpu = OpenCpu();
  for (const int64_t channels : {3, 4}) {  // 3: a part's first element is not that of a block
    Graph net({.name = "dropout", .batch = 7});
    std::string x = net.Add("drop", Dropout{.probability = 0.5F}, {net.Input({channels, 1, 1})});
    net.Loss(net.Add("fc", FullyConnected{.out_features = 2}, {x}), SoftmaxCrossEntropy{});
    const std::vector<float> whole = MasksOf(net, 1, *cpu);
    CHECK(std::count(whole.begin(), whole.end(), 0.0F) > 0);
    for (const int64_t sub_batches : {2, 3, 4, 7}) CHECK(MasksOf(net, sub_batches, *cpu) == whole);
  }
}

TEST_CASE("sub-batches need less memory, and evaluate and predict like the whole batch") {
  const std::unique_ptr<CpuDevice> cpu = OpenCpu();
  Session whole =
      Opened(ChainNet(), *cpu, {.policy = "liveness", .sub_batches = 1}, kDividedTraining);
  for (const int64_t sub_batches : {4, 3}) {  // 2 + 2 + 2 + 2, 3 + 3 + 2
    CAPTURE(sub_batches);
    Session split = Opened(ChainNet(), *cpu, {.policy = "liveness", .sub_batches = sub_batches},
                           kDividedTraining);
    CHECK(split.plan().peak_activation_bytes * (sub_batches - 1) <
          whole.plan().peak_activation_bytes);
    for (const uint64_t seed : {1, 2}) {
      const Batch batch = MakeBatch(seed);
      CHECK(split.Evaluate(batch)->loss == doctest::Approx(whole.Evaluate(batch)->loss));
      CHECK(split.Evaluate(batch)->correct == whole.Evaluate(batch)->correct);
      const Prediction a = split.Predict(batch.images).value();
      const Prediction b = whole.Predict(batch.images).value();
      CHECK(a.shape == b.shape);
      CHECK(a.probabilities.size() == b.probabilities.size());
      for (size_t i = 0; i < a.probabilities.size(); ++i)
        CHECK(a.probabilities[i] == doctest::Approx(b.probabilities[i]));
    }
    // Smaller batches than the network's end within a part, or with the first image of one.
    const Batch batch = MakeBatch(3);
    for (int64_t images = 1; images < 8; ++images) {
      const std::vector<float> some(batch.images.begin(),
                                    batch.images.begin() + images * 3 * 8 * 8);
      CHECK(split.Predict(some)->shape == Shape{images, 4, 1, 1});
    }
  }
}

TEST_CASE("a batch arrives in its parts also while the iteration before runs") {
  const std::unique_ptr<CpuDevice> cpu = OpenCpu();
  OwnMemoryDevice device(*cpu);
  for (const int64_t sub_batches : {2, 3}) {
    const PlannerOptions options = {.policy = "liveness", .sub_batches = sub_batches};
    Session ahead = Opened(ChainNet(), device, options, kDividedTraining);
    Session plain = Opened(ChainNet(), *cpu, options, kDividedTraining);
    REQUIRE(ahead.plan().incoming_batch.has_value());
    CHECK(Train(ahead, 4) == Train(plain, 4));
    CheckSameState(ahead, plain);
  }
}

TEST_CASE("a plan file says how many sub-batches it has, and is run with them") {
  const std::unique_ptr<CpuDevice> cpu = OpenCpu();
  const PlannerOptions options = {.policy = "auto", .sub_batches = 3};  // 3 + 3 + 2
  Session planned = Opened(ChainNet(), *cpu, options, kDividedTraining);
  const std::string json = planned.plan().ToJson();
  CHECK(json.find("\"sub_batches\":3") != std::string::npos);
  CHECK(Plan::FromJson(json).value() == planned.plan());

  const ScratchDirectory directory;
  const std::string file = directory.File("plan.json");
  WriteText(file, json);
  const auto planner = PlannerFromFile(file, PlannerFor({.policy = "auto"})).value();
  Session read = Session::Create(ChainNet(), *cpu, planner, kDividedTraining).value();
  CHECK(Train(read, 3) == Train(planned, 3));
  CheckSameState(read, planned);

  Plan changed = planned.plan();
  changed.sub_batches = 4;
  CHECK(absl::IsInvalidArgument(Verify(changed)));
  const Program whole = BuildProgram(ChainNet(), {}).value();
  CHECK(absl::IsInvalidArgument(MatchesProgram(planned.plan(), whole)));
}

TEST_CASE("a refused number of sub-batches is refused by the session") {
  const std::unique_ptr<CpuDevice> cpu = OpenCpu();
  const auto refusal = [&](const Graph& graph, int64_t sub_batches) {
    const absl::Status status = CreateSession(graph, *cpu, {.sub_batches = sub_batches}).status();
    CHECK(absl::IsInvalidArgument(status));
    return std::string(status.message());
  };
  CHECK(refusal(ChainNet(), 9).find("at least one image") != std::string::npos);
  CHECK(refusal(SmallNet(), 2).find("layer 'bn1'") != std::string::npos);
}

}  // namespace neap

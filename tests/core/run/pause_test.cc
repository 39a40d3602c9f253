// Training that pauses after forward, and goes on with gradients of outputs that the caller gives.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "neap/core/run/ranks.h"
#include "neap/core/run/session.h"
#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/collectives/local_ranks.h"
#include "neap/layers/convolution.h"
#include "neap/layers/dropout.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/join.h"
#include "neap/layers/pooling.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/layers/target_loss.h"
#include "neap/memory/create_session.h"
#include "neap/memory/policies/policies.h"
#include "tests/given_gradients.h"
#include "tests/scratch_directory.h"
#include "tests/small_training.h"

namespace neap::pause_test {
namespace {

using testing::CheckSameParameters;
using testing::GivenLosses;

constexpr auto kRefused = absl::StatusCode::kFailedPrecondition;
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

std::string ErrorOf(const absl::Status& status) { return std::string(status.message()); }

Feeds FeedsOf(const Batch& batch) {
  return {{.name = "input", .floats = batch.images}, {.name = "labels", .integers = batch.labels}};
}

struct NetOptions {
  int64_t batch = 8;
  DType dtype = DType::kFp32;
  bool batch_norm = false;
  bool dropout = true;
};

// A residual block, dropout, and a classifier.
Graph Net(const NetOptions& options = {}) {
  Graph net({.name = "net", .batch = options.batch, .dtype = options.dtype});
  std::string x = net.Input({3, 8, 8});
  x = net.Add("conv1", Convolution{.out_channels = 8, .kernel = 3, .padding = 1}, {x});
  if (options.batch_norm) x = net.Add("bn1", BatchNorm{}, {x});
  const std::string trunk = net.Add("relu1", Relu{}, {x});
  x = net.Add("conv2", Convolution{.out_channels = 8, .kernel = 3, .padding = 1}, {trunk});
  x = net.Add("relu2", Relu{}, {x});
  x = net.Add("add", Add{}, {x, trunk});
  x = net.Add("pool", MaxPool{}, {x});
  if (options.dropout) x = net.Add("drop", Dropout{.probability = 0.25F}, {x});
  x = net.Add("fc", FullyConnected{.out_features = 4}, {x});
  net.Loss(x, SoftmaxCrossEntropy{});
  return net;
}

// Without labels, which the caller's loss compares the output with.
Graph Given(const NetOptions& options = {}) { return GivenLosses(Net(options)).net(); }

void TrainGiven(Session& session, const Graph& net, int steps) {
  const GivenLosses losses(net);
  for (int i = 0; i < steps; ++i) {
    const int64_t step = session.step();
    const Batch batch = MakeBatch(static_cast<uint64_t>(step));
    const StepResult result = losses.Step(session, FeedsOf(batch));
    CHECK(result.step == step);
    CHECK(result.losses.empty());
    CHECK(result.outputs.empty());
    CHECK(session.step() == step + 1);
    const MemoryUse use = session.memory();
    CHECK(use.measured_peak_bytes == use.predicted_peak_bytes);
  }
}

// With the loss in the network and with its gradient given, in all memory that a policy takes and
// in the smallest budget.
void CheckEqualsLoss(const Graph& net, const TrainingOptions& training, PlannerOptions planning) {
  const auto device = OpenCpu();
  Session with_loss = Opened(net, *device, planning, training);
  Train(with_loss, 4);
  const Graph given = GivenLosses(net).net();
  Session natural = Opened(given, *device, planning, training);
  TrainGiven(natural, net, 4);
  CheckSameParameters(natural, with_loss);
  planning.budget_bytes = natural.planning().minimum_budget_bytes;
  Session tight = Opened(given, *device, planning, training);
  CHECK(tight.memory().arena_bytes <= planning.budget_bytes);
  TrainGiven(tight, net, 4);
  CheckSameParameters(tight, with_loss);
}

}  // namespace

TEST_CASE("a gradient that is given trains as the loss that it is of, bit for bit, by any policy") {
  for (const Policy& policy : Policies()) {
    CAPTURE(policy.name);
    CheckEqualsLoss(Net({.batch_norm = true}), {}, {.policy = std::string(policy.name)});
  }
}

TEST_CASE("a gradient that is given trains as its loss with every optimizer and type") {
  const Optimizer adamw = {.rule = Optimizer::Rule::kAdamW, .average_decay = 0.9F};
  const Optimizer clipped = {.clip_norm = 0.5F};
  for (const Optimizer& optimizer : {adamw, clipped}) {
    CAPTURE(optimizer.clip_norm);
    CheckEqualsLoss(Net(), {.optimizer = optimizer}, {.policy = "superneurons"});
  }
  for (const DType dtype : {DType::kBf16, DType::kFp16}) {
    CAPTURE(Name(dtype));
    for (const char* policy : {"keep-all", "tensor-cache", "superneurons", "auto"})
      CheckEqualsLoss(Net({.dtype = dtype, .batch_norm = true}), {}, {.policy = policy});
  }
}

TEST_CASE("parameters may be on the host over the pause") {
  CheckEqualsLoss(Net(), {}, {.policy = "superneurons", .offload_params = true});
}

TEST_CASE("the outputs are what evaluation computes of them, and are handed out before backward") {
  const auto device = OpenCpu();
  Session session = Opened(Given({.dropout = false}), *device, {.policy = "superneurons"});
  const Batch batch = MakeBatch(3);
  const Feeds feeds = {{.name = "input", .floats = batch.images}};
  const std::vector<NamedTensor> evaluated = session.Evaluate(feeds)->outputs;
  const std::vector<NamedTensor> outputs = session.Forward(feeds).value();
  REQUIRE(outputs.size() == 1);
  CHECK(outputs[0].name == "fc");
  CHECK(outputs[0].shape == Shape{8, 4, 1, 1});
  CHECK(SameBits(outputs[0].values, evaluated[0].values));
  REQUIRE(session.SkipBackward().ok());
}

TEST_CASE("the gradient of each parameter follows from the gradient that is given") {
  const auto device = OpenCpu();
  Graph net({.name = "linear", .batch = 2});
  net.Input("x", {3, 1, 1});
  net.OutputWithGradient(net.Add("fc", FullyConnected{.out_features = 2}, {"x"}));
  Session session =
      Opened(net, *device, {},
             {.optimizer = {.momentum = 0, .weight_decay = 0}, .learning_rate = {.base = 0.5F}});
  const std::vector<float> x = {1, 2, 4, 8, -1, 2}, given = {1, -2, 0.5F, 4};
  std::vector<float> weight = session.Values("fc.weight").value();
  std::vector<float> bias = session.Values("fc.bias").value();
  const std::vector<NamedTensor> outputs = session.Forward({{.name = "x", .floats = x}}).value();
  for (size_t n = 0; n < 2; ++n) {
    for (size_t k = 0; k < 2; ++k) {
      float sum = bias[k];
      for (size_t c = 0; c < 3; ++c) sum += x[n * 3 + c] * weight[k * 3 + c];
      CHECK(outputs.at(0).values[n * 2 + k] == doctest::Approx(sum));
    }
  }
  REQUIRE(session.Backward({{.name = "fc", .floats = given}}).ok());
  for (size_t k = 0; k < 2; ++k) {
    for (size_t c = 0; c < 3; ++c)
      weight[k * 3 + c] -= 0.5F * (given[k] * x[c] + given[2 + k] * x[3 + c]);
    bias[k] -= 0.5F * (given[k] + given[2 + k]);
  }
  const std::vector<float> weight_after = session.Values("fc.weight").value();
  const std::vector<float> bias_after = session.Values("fc.bias").value();
  for (size_t i = 0; i < 6; ++i) CHECK(weight_after[i] == doctest::Approx(weight[i]));
  for (size_t i = 0; i < 2; ++i) CHECK(bias_after[i] == doctest::Approx(bias[i]));
}

namespace {

// A trunk with two heads, each with a loss.
Graph TwoHeads() {
  Graph net({.name = "heads", .batch = 4});
  net.Input("image", {2, 4, 4});
  net.Input("kind", {}, DType::kInt32);
  net.Input("size", {2, 1, 1}, DType::kFp32);
  net.Add("conv", Convolution{.out_channels = 4, .kernel = 3, .padding = 1}, {"image"});
  net.Add("middle", Tanh{}, {"conv"});
  net.Add("kinds", FullyConnected{.out_features = 4}, {"middle"});
  net.Add("sizes", FullyConnected{.out_features = 2}, {"middle"});
  net.Loss("kind_loss", SoftmaxCrossEntropy{}, {"kinds", "kind"});
  net.Loss("size_loss", MeanSquaredError{.weight = 0.25F}, {"sizes", "size"});
  net.Output("kinds");
  return net;
}

struct HeadsBatch {
  std::vector<float> image, size;
  std::vector<int32_t> kind = {0, 3, 2, 2};
  HeadsBatch() {
    for (int i = 0; i < 128; ++i) image.push_back(std::sin(static_cast<float>(i)));
    for (int i = 0; i < 8; ++i) size.push_back(std::cos(static_cast<float>(i)));
  }
  Feeds feeds() const {
    return {{.name = "image", .floats = image},
            {.name = "kind", .integers = kind},
            {.name = "size", .floats = size}};
  }
};

}  // namespace

TEST_CASE("a network may have losses of its own, outputs, and outputs whose gradients are given") {
  const auto device = OpenCpu();
  const HeadsBatch batch;
  for (const std::vector<std::string>& kept :
       {std::vector<std::string>{"kind_loss"}, {"size_loss"}, {}}) {
    CAPTURE(kept.size());
    for (const char* policy : {"keep-all", "superneurons", "recompute-memory"}) {
      CAPTURE(policy);
      Session with_losses = Opened(TwoHeads(), *device, {.policy = policy});
      const GivenLosses losses(TwoHeads(), kept);
      Session session = Opened(losses.net(), *device, {.policy = policy});
      for (int step = 0; step < 3; ++step) {
        const StepResult expected = with_losses.Step(batch.feeds()).value();
        const std::vector<NamedTensor> outputs =
            session.Forward(losses.FeedsOf(batch.feeds())).value();
        for (const NamedTensor& output : outputs) {  // "kinds" always, the first layer of them
          if (output.name == "kinds") CHECK(SameBits(output.values, expected.outputs[0].values));
        }
        CHECK(outputs.size() == (kept.size() == 1 && kept[0] == "size_loss" ? 1 : 2));
        const auto gradients = losses.GradientsOf(outputs, batch.feeds());
        const StepResult result = session.Backward(losses.Named(gradients)).value();
        REQUIRE(result.losses.size() == kept.size());
        for (const LossResult& loss : result.losses) {
          const LossResult& own = expected.losses[loss.name == "kind_loss" ? 0 : 1];
          CHECK(own.name == loss.name);
          CHECK(loss.loss == own.loss);
          CHECK(loss.correct == own.correct);
        }
      }
      CheckSameParameters(session, with_losses);
    }
  }
}

// The gradient of (y, v) with respect to y is v, and that of the sum of losses the sum.
TEST_CASE("what is given of an output that other layers read is added to what they contribute") {
  const auto device = OpenCpu();
  const TrainingOptions plain = {.optimizer = {.momentum = 0, .weight_decay = 0},
                                 .learning_rate = {.base = 1}};
  const HeadsBatch batch;
  Graph both = TwoHeads();
  both.OutputWithGradient("middle");
  const auto gradient_of = [&](const Graph& net, float factor, bool gives) {
    Session session = Opened(net, *device, {.policy = "superneurons"}, plain);
    const std::vector<float> before = session.Values("conv.weight").value();
    std::vector<float> given(4 * 4 * 16);
    for (size_t i = 0; i < given.size(); ++i)
      given[i] = factor * std::cos(static_cast<float>(3 * i));
    if (gives) {
      REQUIRE(session.Forward(batch.feeds()).ok());
      REQUIRE(session.Backward({{.name = "middle", .floats = given}}).ok());
    } else {
      REQUIRE(session.Step(batch.feeds()).ok());
    }
    const std::vector<float> after = session.Values("conv.weight").value();
    std::vector<double> gradient;
    for (size_t i = 0; i < after.size(); ++i)
      gradient.push_back(static_cast<double>(before[i]) - static_cast<double>(after[i]));
    return gradient;
  };
  const std::vector<double> of_losses = gradient_of(TwoHeads(), 0, /*gives=*/false);
  const std::vector<double> with_none = gradient_of(both, 0, /*gives=*/true);
  const std::vector<double> sum = gradient_of(both, 0.125F, /*gives=*/true);
  const std::vector<double> twice = gradient_of(both, 0.25F, /*gives=*/true);
  double largest = 0;
  for (size_t i = 0; i < sum.size(); ++i) {
    CHECK(std::abs(with_none[i] - of_losses[i]) < 1e-6);
    CHECK(std::abs(twice[i] - sum[i] - (sum[i] - of_losses[i])) < 1e-5);
    largest = std::max(largest, std::abs(sum[i] - of_losses[i]));
  }
  CHECK(largest > 1e-2);
}

TEST_CASE("gradients of several batches are summed before an update") {
  const auto device = OpenCpu();
  for (const DType dtype : {DType::kFp32, DType::kFp16}) {
    CAPTURE(Name(dtype));
    const Graph net = Net({.dtype = dtype});
    const GivenLosses losses(net);
    Session with_loss = Opened(net, *device, {}, {.accumulate = 3});
    Session session = Opened(losses.net(), *device, {.policy = "superneurons"}, {.accumulate = 3});
    for (int64_t step = 0; step < 3; ++step) {
      for (int64_t index = 0; index < 3; ++index) {
        const Batch batch = MakeBatch(static_cast<uint64_t>(step * 3 + index));
        REQUIRE(with_loss.Accumulate(batch).ok());
        CHECK(session.accumulated() == index);
        if (index == 1) {  // a batch that is given up is not one of them
          REQUIRE(session.Forward(losses.FeedsOf(FeedsOf(batch))).ok());
          CHECK(session.Update().status().code() == kRefused);
          CHECK(session.Discard().code() == kRefused);
          REQUIRE(session.SkipBackward().ok());
          CHECK(session.accumulated() == index);
        }
        CHECK(losses.Step(session, FeedsOf(batch), /*batches=*/3).step == step);
      }
      CHECK(session.Forward(losses.FeedsOf(FeedsOf(MakeBatch(0)))).status().code() == kRefused);
      REQUIRE(with_loss.Update().ok());
      REQUIRE(session.Update().ok());
    }
    CheckSameParameters(session, with_loss);
  }
}

TEST_CASE("fp16 scales what is given, and skips a step whose gradients are not finite") {
  const auto device = OpenCpu();
  Session session = Opened(Given({.dtype = DType::kFp16}), *device);
  const Batch batch = MakeBatch(1);
  const Feeds feeds = {{.name = "input", .floats = batch.images}};
  // 2^-26 rounds to 0 in fp16, but 2^16 times that does not.
  const std::vector<float> small(32, 0x1p-26F);
  const std::vector<float> before = session.Values("fc.bias").value();
  REQUIRE(session.Forward(feeds).ok());
  const StepResult scaled = session.Backward({{.name = "fc", .floats = small}}).value();
  CHECK(!scaled.skipped);
  CHECK(scaled.used_loss_scale == 65536);
  const std::vector<float> momentum = session.Values("fc.bias.momentum").value();
  for (const float value : momentum) CHECK(value == 8 * 0x1p-26F);  // of 8 images
  const std::vector<float> learned = session.Values("fc.weight").value();
  std::vector<float> infinite = small;
  infinite[5] = std::numeric_limits<float>::infinity();
  REQUIRE(session.Forward(feeds).ok());
  const StepResult skipped = session.Backward({{.name = "fc", .floats = infinite}}).value();
  CHECK(skipped.skipped);
  CHECK(skipped.skipped_steps == 1);
  CHECK(skipped.loss_scale == 32768);
  CHECK(SameBits(session.Values("fc.weight").value(), learned));
  REQUIRE(session.Forward(feeds).ok());
  const StepResult taken = session.Backward({{.name = "fc", .floats = small}}).value();
  CHECK(!taken.skipped);
  CHECK(taken.used_loss_scale == 32768);
}

TEST_CASE("a step that is given up changes running statistics and nothing else") {
  const auto device = OpenCpu();
  const ScratchDirectory directory;
  for (const char* policy : {"keep-all", "superneurons", "tensor-cache"}) {
    CAPTURE(policy);
    PlannerOptions planning = {.policy = policy};
    Session steady = Opened(Given(), *device, planning);
    planning.budget_bytes = steady.planning().minimum_budget_bytes;
    Session session = Opened(Given(), *device, planning);
    TrainGiven(steady, Net(), 2);
    for (int step = 0; step < 2; ++step) {
      const Batch other = MakeBatch(77);
      REQUIRE(session.Forward({{.name = "input", .floats = other.images}}).ok());
      REQUIRE(session.SkipBackward().ok());
      CHECK(session.step() == step);
      TrainGiven(session, Net(), 1);
    }
    CheckSameState(steady, session);
    CHECK(session.Save(directory.File("state")).ok());
  }
  Session session = Opened(Given({.batch_norm = true}), *device);
  const std::vector<float> before = session.Values("bn1.running_mean").value();
  const Batch batch = MakeBatch(1);
  REQUIRE(session.Forward({{.name = "input", .floats = batch.images}}).ok());
  REQUIRE(session.SkipBackward().ok());
  CHECK(session.Values("bn1.running_mean").value() != before);
}

TEST_CASE("calls in another order are refused, and name what comes next") {
  const auto device = OpenCpu();
  const Batch batch = MakeBatch(1);
  const Feeds feeds = {{.name = "input", .floats = batch.images}};
  const std::vector<float> gradient(32, 0.5F);
  const Feeds gradients = {{.name = "fc", .floats = gradient}};
  Session session = Opened(Given(), *device);
  CHECK(session.Backward(gradients).status().code() == kRefused);
  CHECK(session.SkipBackward().code() == kRefused);
  for (const absl::Status& refused :
       {session.Step(feeds).status(), session.Begin(feeds), session.TimeStep(feeds).status()}) {
    CHECK(refused.code() == kRefused);
    CHECK(ErrorOf(refused) ==
          "net has outputs whose gradients the caller gives; Forward() and Backward() train it");
  }
  CHECK(session.Finish().status().code() == kRefused);
  REQUIRE(session.Forward(feeds).ok());
  for (const absl::Status& refused :
       {session.Forward(feeds).status(), session.Step(feeds).status(), session.Begin(feeds),
        session.Evaluate(feeds).status(), session.Values("fc.weight").status(),
        session.Weights().status(), session.Save("unused"), session.Load("unused"),
        session.SetBudget(1 << 20), session.AwaitBudget(), session.SetTrainingGraph(Given())}) {
    CHECK(refused.code() == kRefused);
    CHECK(ErrorOf(refused) ==
          "a step is paused after Forward(); Backward() or SkipBackward() comes next");
  }
  CHECK(session.Finish().status().code() == kRefused);
  CHECK(session.Backward(gradients).ok());
  CHECK(session.Backward(gradients).status().code() == kRefused);

  Session of_steps = Opened(Net(), *device);
  CHECK(ErrorOf(of_steps.Forward(FeedsOf(batch)).status()) ==
        "net has no output whose gradient the caller gives (Graph::OutputWithGradient()), so there "
        "is no Forward() without the rest");
  CHECK(of_steps.TrainStep(batch).ok());
}

TEST_CASE("gradients that do not fit are refused by name, and the step is still paused") {
  const auto device = OpenCpu();
  const GivenLosses losses(TwoHeads());
  const HeadsBatch batch;
  Session session = Opened(losses.net(), *device);
  const std::vector<float> kinds(16, 0.5F), sizes(8, 0.25F);
  const std::vector<int32_t> integers(16);
  const std::vector<float> before = session.Values("conv.weight").value();
  REQUIRE(session.Forward(losses.FeedsOf(batch.feeds())).ok());
  const auto error_of = [&](const Feeds& gradients) {
    const absl::Status status = session.Backward(gradients).status();
    CHECK(status.code() == kInvalid);
    return ErrorOf(status);
  };
  const FeedValue of_kinds = {.name = "kinds", .floats = kinds};
  CHECK(error_of({of_kinds}) == "there is no gradient of output 'sizes'");
  CHECK(error_of({of_kinds, of_kinds}) == "output with a gradient 'kinds' is given twice");
  CHECK(error_of({of_kinds, {.name = "middle", .floats = sizes}}) ==
        "the network has no output with a gradient 'middle'; it has: kinds, sizes");
  CHECK(error_of({of_kinds, {.name = "sizes", .floats = kinds}}) ==
        "the gradient of output 'sizes' has 16 values; it is 8 floats, as 4x2x1x1 fp32 nchw");
  CHECK(error_of({of_kinds, {.name = "sizes", .floats = sizes, .shape = {8}}}) ==
        "the gradient of output 'sizes' has 8 values; it is 8 floats, as 4x2x1x1 fp32 nchw");
  CHECK(error_of({{.name = "kinds", .integers = integers}, {.name = "sizes", .floats = sizes}}) ==
        "the gradient of output 'kinds' has 16 values; it is 16 floats, as 4x4x1x1 fp32 nchw");
  CHECK(
      session.Backward({of_kinds, {.name = "sizes", .floats = sizes, .shape = {4, 2, 1, 1}}}).ok());
  CHECK(session.Values("conv.weight").value() != before);
}

TEST_CASE("gradients in the device's memory are read there, unless they are to be scaled") {
  const auto device = OpenCpu();  // whose memory is the host's
  const Batch batch = MakeBatch(1);
  const Feeds feeds = {{.name = "input", .floats = batch.images, .on_device = true}};
  const std::vector<float> gradient(32, 0.5F);
  Session session = Opened(Given(), *device), on_device = Opened(Given(), *device);
  REQUIRE(session.Forward(feeds).ok());
  REQUIRE(on_device.Forward(feeds).ok());
  REQUIRE(session.Backward({{.name = "fc", .floats = gradient}}).ok());
  REQUIRE(on_device.Backward({{.name = "fc", .floats = gradient, .on_device = true}}).ok());
  CheckSameState(session, on_device);
  Session scaled = Opened(Given({.dtype = DType::kFp16}), *device);
  REQUIRE(scaled.Forward(feeds).ok());
  CHECK(ErrorOf(scaled.Backward({{.name = "fc", .floats = gradient, .on_device = true}}).status())
            .find("must be in the host's memory") != std::string::npos);
}

TEST_CASE("networks that cannot pause are refused") {
  const auto device = OpenCpu();
  CHECK(ErrorOf(CreateSession(Given(), *device, {.sub_batches = 2}).status()) ==
        "layer 'caller' cannot be run in 2 sub-batches: the gradients that it gives are those of "
        "outputs of the whole batch");
  Graph unlearned({.batch = 2});
  unlearned.Input("x", {3, 1, 1});
  unlearned.OutputWithGradient(unlearned.Add("relu", Relu{}, {"x"}));
  CHECK(ErrorOf(CreateSession(unlearned, *device, {}).status()) ==
        "layer 'relu': its gradient is to be given, but no parameter precedes it");
  Graph twice({.batch = 2});
  twice.Input("x", {3, 1, 1});
  twice.Add("caller", FullyConnected{.out_features = 2}, {"x"});
  twice.OutputWithGradient("caller");
  CHECK(ErrorOf(CreateSession(twice, *device, {}).status()) ==
        "layer 'caller': this name is that of the caller, who gives gradients of outputs");
  // The planner chooses one sub-batch where two would need less memory.
  Session free = Opened(Given(), *device, {.policy = "auto"});
  const int64_t minimum = free.planning().minimum_budget_bytes;
  CHECK(free.plan().sub_batches == 1);
  CHECK(CreateSession(Given(), *device, {.budget_bytes = minimum - kBlockBytes, .policy = "auto"})
            .status()
            .code() == absl::StatusCode::kResourceExhausted);
}

TEST_CASE("the budget and the graph may change between steps") {
  const auto device = OpenCpu();
  Session steady = Opened(Given(), *device);
  Session session = Opened(Given(), *device, {.policy = "superneurons"});
  TrainGiven(steady, Net(), 4);
  TrainGiven(session, Net(), 2);
  REQUIRE(session.SetBudget(session.planning().minimum_budget_bytes).ok());
  TrainGiven(session, Net(), 1);
  CHECK(session.SetTrainingGraph(Net()).code() == kInvalid);  // it has a loss of its own
  TrainGiven(session, Net(), 1);
  CheckSameState(steady, session);
}

TEST_CASE("a step has the size of what is given to its forward") {
  const auto device = OpenCpu();
  Graph net({.name = "sizes", .batch = 8});
  std::string x = net.Input({3, 8, 8});
  x = net.Add("conv", Convolution{.out_channels = 8, .kernel = 3, .padding = 1}, {x});
  x = net.Add("pool", GlobalAveragePool{}, {net.Add("relu", Relu{}, {x})});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 4}, {x}), SoftmaxCrossEntropy{});
  net.Sizes({{.extents = {4, 4}}, {.extents = {6, 6}, .batch = 4}});
  const GivenLosses losses(net);
  Session with_loss = Opened(net, *device);
  Session session = Opened(losses.net(), *device, {.policy = "superneurons"});
  const Batch batch = MakeBatch(2);
  for (const auto& [images, extent] :
       {std::pair<int64_t, int64_t>{8, 8}, {4, 6}, {8, 4}, {4, 6}, {8, 8}}) {
    const auto values = static_cast<size_t>(images * 3 * extent * extent);
    const Feeds feeds = {{.name = "input",
                          .floats = {batch.images.data(), values},
                          .shape = {images, 3, extent, extent}},
                         {.name = "labels",
                          .integers = {batch.labels.data(), static_cast<size_t>(images)},
                          .shape = {images}}};
    REQUIRE(with_loss.Step(feeds).ok());
    REQUIRE(session.Forward(losses.FeedsOf(feeds)).ok());
    REQUIRE(session.SkipBackward().ok());
    losses.Step(session, feeds);
  }
  CheckSameParameters(session, with_loss);
}

TEST_CASE("a part of the network may have steps that do not pause") {
  const auto device = OpenCpu();
  const HeadsBatch batch;
  const GivenLosses losses(TwoHeads(), {"kind_loss"});
  Graph part({.name = "heads", .batch = 4});
  const Graph whole = TwoHeads();
  for (const GraphLayer& layer : whole.layers()) {
    const bool is_size = layer.name.starts_with("size");
    if (!is_size) part.Add(layer);
  }
  Session session = Opened(losses.net(), *device);
  losses.Step(session, batch.feeds());
  const std::vector<float> sizes = session.Values("sizes.weight").value();
  REQUIRE(session.SetTrainingGraph(part).ok());
  const Feeds feeds = losses.FeedsOf(batch.feeds());
  CHECK(session.Forward(feeds).status().code() == kRefused);
  CHECK(session.Step(feeds)->losses.size() == 1);
  CHECK(SameBits(session.Values("sizes.weight").value(), sizes));
  REQUIRE(session.SetTrainingGraph(losses.net()).ok());
  losses.Step(session, batch.feeds());
  CHECK(!SameBits(session.Values("sizes.weight").value(), sizes));
  CHECK(session.step() == 3);
}

TEST_CASE("a session for inference alone has outputs without gradients") {
  const auto device = OpenCpu();
  Session session = Opened(Given(), *device, {}, {.inference_only = true});
  const Batch batch = MakeBatch(1);
  const Feeds feeds = {{.name = "input", .floats = batch.images}};
  CHECK(session.Evaluate(feeds)->outputs.size() == 1);
  CHECK(session.Forward(feeds).status().code() == kRefused);
}

TEST_CASE("the gradients that two ranks give are summed") {
  const Graph net = Net({.batch = 8, .dropout = false});
  const GivenLosses losses(net);
  const auto train = [&](bool gives) {
    std::vector<Trained> trained(2);
    LocalRanks ranks(2);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 2; ++rank) {
      threads.emplace_back([&, rank] {
        const auto device = OpenCpu();
        const auto communicator = ranks.Join(rank, *device);
        Session session = Opened(gives ? losses.net() : net, *device, {.policy = "superneurons"},
                                 {.communicator = communicator.get()});
        for (uint64_t step = 0; step < 3; ++step) {
          const Batch batch = MakeBatch(2 * step + static_cast<uint64_t>(rank));
          if (gives) {
            losses.Step(session, FeedsOf(batch), /*batches=*/2);
          } else {
            REQUIRE(session.TrainStep(batch).ok());
          }
        }
        const std::vector<NamedTensor> weights = session.Weights().value();
        for (const NamedTensor& tensor : weights)
          trained[static_cast<size_t>(rank)].push_back(tensor.values);
      });
    }
    for (std::thread& thread : threads) thread.join();
    return trained;
  };
  const std::vector<Trained> given = train(true), with_loss = train(false);
  for (size_t rank = 0; rank < 2; ++rank) CHECK(AreSame(given[rank], with_loss[rank]));
}

}  // namespace neap::pause_test

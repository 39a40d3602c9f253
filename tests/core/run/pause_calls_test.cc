// Training that pauses after forward: which calls may follow each other, and what errors leave.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "neap/core/run/session.h"
#include "neap/layers/activation.h"
#include "neap/layers/fully_connected.h"
#include "neap/memory/create_session.h"
#include "tests/core/run/paused_training.h"
#include "tests/faulty_device.h"
#include "tests/given_gradients.h"
#include "tests/scratch_directory.h"
#include "tests/small_training.h"

namespace neap::pause_test {

using testing::CheckSameParameters;
using testing::GivenLosses;

TEST_CASE("a step that is given up changes running statistics and nothing else") {
  const auto device = OpenCpu();
  const ScratchDirectory directory;
  for (const char* policy : {"keep-all", "superneurons", "tensor-cache"}) {
    CAPTURE(policy);
    PlannerOptions planning = {.policy = policy};
    Session steady = Opened(Given(), *device, planning);
    planning.budget_bytes = steady.planning().minimum_budget_bytes;
    Session session = Opened(Given(), *device, planning);
    TrainGiven(steady, BlockNet(), 2);
    for (int step = 0; step < 2; ++step) {
      const Batch other = MakeBatch(77);
      REQUIRE(session.Forward({{.name = "input", .floats = other.images}}).ok());
      REQUIRE(session.SkipBackward().ok());
      CHECK(session.step() == step);
      TrainGiven(session, BlockNet(), 1);
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

  Session of_steps = Opened(BlockNet(), *device);
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
  TrainGiven(steady, BlockNet(), 4);
  TrainGiven(session, BlockNet(), 2);
  REQUIRE(session.SetBudget(session.planning().minimum_budget_bytes).ok());
  TrainGiven(session, BlockNet(), 1);
  CHECK(session.SetTrainingGraph(BlockNet()).code() == kInvalid);  // it has a loss of its own
  TrainGiven(session, BlockNet(), 1);
  CheckSameState(steady, session);
}

TEST_CASE("a step that fails in either half leaves a session that a file makes usable again") {
  const auto cpu = OpenCpu();
  const ScratchDirectory directory;
  const std::string path = directory.File("state.safetensors");
  const GivenLosses losses(BlockNet());
  const Batch any = MakeBatch(0);
  const Feeds feeds = FeedsOf(any);
  Session steady = Opened(losses.net(), *cpu);
  TrainGiven(steady, BlockNet(), 2);
  int in_forward = 0, in_backward = 0, before = 0;
  for (int k = 1;; ++k) {
    CAPTURE(k);
    FaultyDevice device(*cpu);
    Session session = Opened(losses.net(), device, {.policy = "vdnn-all"});
    TrainGiven(session, BlockNet(), 1);
    REQUIRE(session.Save(path).ok());
    device.FailCopies(k, 1);
    const Batch batch = MakeBatch(1);
    const auto outputs = session.Forward(losses.FeedsOf(FeedsOf(batch)));
    absl::Status failed = outputs.status();
    if (outputs.ok()) {
      const auto gradients = losses.GradientsOf(*outputs, FeedsOf(batch));
      failed = session.Backward(losses.Named(gradients)).status();
    }
    device.FailCopies(0, 0);
    if (failed.ok()) break;
    ++(outputs.ok() ? in_backward : in_forward);
    // A batch that could not be sent has changed nothing.
    const absl::Status next = session.Forward(losses.FeedsOf(feeds)).status();
    CHECK((next.ok() || next.code() == kRefused));
    if (next.ok()) {
      ++before;
      REQUIRE(session.SkipBackward().ok());
    } else {
      CHECK(ErrorOf(next).find("Load() a checkpoint") != std::string::npos);
    }
    REQUIRE(session.Load(path).ok());
    CHECK(session.step() == 1);
    TrainGiven(session, BlockNet(), 1);
    CheckSameParameters(session, steady);
  }
  CHECK(before > 0);
  CHECK(in_forward > before);
  CHECK(in_backward > 2);
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

}  // namespace neap::pause_test

// Training in 16 bits on the CPU: masters, files, and steps that are skipped.
#include "tests/core/run/half_training.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "neap/core/base/float16.h"
#include "neap/core/step/loss_scale.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/join.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/memory/create_session.h"
#include "tests/scratch_directory.h"

namespace neap {
namespace {

using namespace testing;

template <typename T>
int CountDifferences(const std::vector<float>& copy, const std::vector<float>& master) {
  int different = 0;
  for (size_t i = 0; i < copy.size(); ++i)
    different += copy[i] == static_cast<float>(T(master[i])) ? 0 : 1;
  return different;
}

// A block with running statistics, or without the block.
Graph BlockNet(bool with_block) {
  Graph net({.name = "block", .batch = 8, .dtype = DType::kFp16});
  std::string x = net.Input({3, 8, 8});
  x = net.Add("conv1", Convolution{.out_channels = 8, .kernel = 3, .padding = 1}, {x});
  const std::string trunk = net.Add("bn1", BatchNorm{}, {x});
  x = trunk;
  if (with_block) {
    x = net.Add("conv2", Convolution{.out_channels = 8, .kernel = 3, .padding = 1}, {trunk});
    x = net.Add("bn2", BatchNorm{}, {x});
    x = net.Add("add", Add{}, {x, trunk});
  }
  net.Loss(net.Add("fc", FullyConnected{.out_features = 4}, {x}), SoftmaxCrossEntropy{});
  return net;
}

// The tensors whose names begin with `layer`.
State OfLayer(const State& state, const std::string& layer) {
  State found;
  for (const auto& [name, values] : state) {
    if (name.starts_with(layer)) found[name] = values;
  }
  return found;
}

TEST_CASE("16-bit training lowers the loss, and weights stay the rounded masters") {
  const auto device = OpenCpu();
  for (const DType dtype : {DType::kBf16, DType::kFp16}) {
    CAPTURE(Name(dtype));
    Session session = OpenHalf(*device, dtype);
    const float first = StepOn(session, MakeBatch(1)).loss;
    float last = first;
    for (int i = 0; i < 30; ++i) last = StepOn(session, MakeBatch(1)).loss;
    CHECK(last < 0.7F * first);
    const State state = StateOf(session);
    int copies = 0;
    for (const auto& [name, values] : state) {
      const std::string suffix = "." + std::string(Name(dtype));
      if (!name.ends_with(suffix)) continue;
      const std::vector<float>& master = state.at(name.substr(0, name.size() - suffix.size()));
      ++copies;
      CHECK((dtype == DType::kBf16 ? CountDifferences<Bf16>(values, master)
                                   : CountDifferences<Fp16>(values, master)) == 0);
    }
    CHECK(copies > 0);
  }
}

TEST_CASE("a step with an overflow changes nothing but the scale, whatever the plan") {
  CheckOverflowsAreSkipped(*OpenCpu());
}

TEST_CASE("16-bit training has the same bits under every plan, with and without fusion") {
  CheckSameBitsUnderEveryPlan(*OpenCpu(), /*reference_fusion=*/false);
}

TEST_CASE("training resumes with the scale, to the same bits") {
  const ScratchDirectory scratch;
  const auto device = OpenCpu();
  const std::string path = scratch.File("half.safetensors");
  Session first = OpenHalf(*device, DType::kFp16);
  Train(first, 2);
  StepOn(first, OverflowingBatch());
  REQUIRE(first.Save(path).ok());
  Session second = OpenHalf(*device, DType::kFp16, {}, {.seed = 77});
  REQUIRE(second.Load(path).ok());
  CHECK(StateOf(second) == StateOf(first));
  for (Session* session : {&first, &second}) {
    const StepResult result = StepOn(*session, MakeBatch(5));
    CHECK(result.skipped_steps == 1);
    CHECK(result.loss_scale == LossScale::kInitial / 2);
  }
  CHECK(StateOf(second) == StateOf(first));
}

TEST_CASE("an evaluation has no loss scale, before and after training") {
  const auto device = OpenCpu();
  Session session = OpenHalf(*device, DType::kFp16);
  const auto evaluate = [&] {
    const absl::StatusOr<StepResult> result = session.Evaluate(MakeBatch(1));
    REQUIRE_MESSAGE(result.ok(), result.status().ToString());
    CHECK(result->used_loss_scale == 1);
    CHECK(result->loss_scale == 1);
    CHECK(!result->skipped);
    CHECK(result->skipped_steps == 0);
  };
  evaluate();
  StepOn(session, OverflowingBatch());
  evaluate();
  const StepResult next = StepOn(session, MakeBatch(1));
  CHECK(next.used_loss_scale == LossScale::kInitial / 2);
  CHECK(!next.skipped);
  CHECK(next.skipped_steps == 1);
}

TEST_CASE("with two steps in flight, each result says whether that step was skipped") {
  const auto device = OpenCpu();
  Session session = OpenHalf(*device, DType::kFp16);
  Train(session, 3);
  const State before = StateOf(session);
  const std::vector<float>& scale = before.at("loss_scale");
  REQUIRE(session.Begin(OverflowingBatch()).ok());
  for (const bool overflows : {true, false, true, false}) {
    REQUIRE(session.Begin(overflows ? MakeBatch(3) : OverflowingBatch()).ok());
    const absl::StatusOr<StepResult> result = session.Finish();
    REQUIRE(result.ok());
    CHECK(result->skipped == overflows);
    CHECK(result->loss_scale ==
          (overflows ? result->used_loss_scale / 2 : result->used_loss_scale));
  }
  const absl::StatusOr<StepResult> last = session.Finish();
  REQUIRE(last.ok());
  CHECK(last->skipped);
  CHECK(last->used_loss_scale == scale[0] / 4);
  CHECK(last->skipped_steps == static_cast<int64_t>(scale[3]) + 3);
}

TEST_CASE("the loss scale passes from graph to graph, and what is left out keeps its values") {
  const auto device = OpenCpu();
  absl::StatusOr<Session> session =
      CreateSession(BlockNet(true), *device, {.strict = true}, {.learning_rate = {.base = 0.01F}});
  REQUIRE_MESSAGE(session.ok(), session.status().ToString());
  Train(*session, 3);
  const State whole = StateOf(*session);
  REQUIRE(whole.contains("bn2.running_mean.backup"));
  CHECK(whole.at("bn2.running_mean.backup") == whole.at("bn2.running_mean"));
  const float scale = whole.at("loss_scale")[0];
  const auto skipped = static_cast<int64_t>(whole.at("loss_scale")[3]);

  REQUIRE(session->SetTrainingGraph(BlockNet(false)).ok());
  const StepResult in_part = StepOn(*session, OverflowingBatch());
  CHECK(in_part.skipped);
  CHECK(in_part.used_loss_scale == scale);
  CHECK(in_part.skipped_steps == skipped + 1);
  Train(*session, 2);
  const State part = StateOf(*session);
  CHECK(part.at("bn1.running_mean") != whole.at("bn1.running_mean"));
  for (const char* layer : {"conv2", "bn2"}) CHECK(OfLayer(part, layer) == OfLayer(whole, layer));

  REQUIRE(session->SetTrainingGraph(BlockNet(true)).ok());
  const StepResult again = StepOn(*session, OverflowingBatch());
  CHECK(again.skipped);
  CHECK(again.used_loss_scale == scale / 2);
  CHECK(again.skipped_steps == skipped + 2);
  State after = StateOf(*session);
  CHECK(after.at("loss_scale") ==
        std::vector<float>{scale / 4, 0, 0, whole.at("loss_scale")[3] + 2});
  after["loss_scale"] = part.at("loss_scale");
  CHECK(after == part);
  Train(*session, 1);
  CHECK(StateOf(*session).at("bn2.running_mean") != whole.at("bn2.running_mean"));
}

TEST_CASE("a file without a loss scale brings back that of a new session") {
  const ScratchDirectory scratch;
  const auto device = OpenCpu();
  const std::string path = scratch.File("without.safetensors");
  Session source = OpenHalf(*device, DType::kFp32);
  Train(source, 2);
  for (const bool with_optimizer : {true, false}) {
    CAPTURE(with_optimizer);
    REQUIRE((with_optimizer ? source.Save(path) : source.SaveWeights(path)).ok());
    Session session = OpenHalf(*device, DType::kFp16);
    Train(session, 1);
    CHECK(StepOn(session, OverflowingBatch()).skipped);
    const absl::Status loaded = session.Load(path);
    REQUIRE_MESSAGE(loaded.ok(), loaded.ToString());
    CHECK(*session.Values("loss_scale") == std::vector<float>{LossScale::kInitial, 0, 0, 0});
    const StepResult result = StepOn(session, OverflowingBatch());
    CHECK(result.skipped);
    CHECK(result.used_loss_scale == LossScale::kInitial);
    CHECK(result.skipped_steps == 1);
  }
}

TEST_CASE("checkpoints of one type continue in another, with the masters' values") {
  const ScratchDirectory scratch;
  const auto device = OpenCpu();
  const std::string path = scratch.File("any.safetensors");
  for (const DType from : {DType::kFp32, DType::kBf16, DType::kFp16}) {
    Session source = OpenHalf(*device, from);
    Train(source, 2);
    REQUIRE(source.Save(path).ok());
    for (const DType to : {DType::kFp32, DType::kBf16, DType::kFp16}) {
      CAPTURE(Name(from));
      CAPTURE(Name(to));
      Session session = OpenHalf(*device, to, {}, {.seed = 9});
      const absl::Status loaded = session.Load(path);
      REQUIRE_MESSAGE(loaded.ok(), loaded.ToString());
      CHECK(session.step() == 2);
      for (const char* name : {"conv1.weight", "conv1.weight.momentum"})
        CHECK(*session.Values(name) == *source.Values(name));
      CHECK(std::isfinite(StepOn(session, MakeBatch(3)).loss));
    }
  }
}

TEST_CASE("files of weights may have 16 bits, and inference alone reads any of them") {
  const ScratchDirectory scratch;
  const auto device = OpenCpu();
  Session source = OpenHalf(*device, DType::kBf16);
  Train(source, 3);
  const std::string bf16 = scratch.File("bf16.safetensors");
  const std::string fp32 = scratch.File("fp32.safetensors");
  REQUIRE(source.SaveWeights(bf16, DType::kBf16).ok());
  REQUIRE(source.SaveWeights(fp32).ok());
  const absl::StatusOr<StepResult> want = source.Evaluate(MakeBatch(4));
  REQUIRE(want.ok());
  for (const std::string& path : {bf16, fp32}) {
    CAPTURE(path);
    Session session = OpenHalf(*device, DType::kBf16, {}, {.inference_only = true});
    const absl::Status loaded = session.Load(path);
    REQUIRE_MESSAGE(loaded.ok(), loaded.ToString());
    const absl::StatusOr<StepResult> got = session.Evaluate(MakeBatch(4));
    REQUIRE_MESSAGE(got.ok(), got.status().ToString());
    // In the file of 16 bits, biases and the parameters of batch norm have them, too.
    CHECK(got->loss == doctest::Approx(want->loss).epsilon(path == fp32 ? 1e-9 : 0.01));
  }
}

}  // namespace
}  // namespace neap

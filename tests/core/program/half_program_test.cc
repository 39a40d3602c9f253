// Programs of 16-bit networks: masters, gradients in fp32, and the steps of a scaled loss.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "neap/core/program/program.h"
#include "neap/core/step/loss_scale.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/softmax_cross_entropy.h"

namespace neap {
namespace {

Graph HalfNet(DType dtype) {
  Graph net({.name = "net", .batch = 2, .dtype = dtype});
  std::string x = net.Input({3, 4, 4});
  x = net.Add("conv", Convolution{.out_channels = 4, .kernel = 3, .padding = 1}, {x});
  x = net.Add("bn", BatchNorm{}, {x});
  x = net.Add("fc", FullyConnected{.out_features = 5}, {x});
  net.Loss(x, SoftmaxCrossEntropy{});
  return net;
}

Program ProgramOf(DType dtype, const ProgramOptions& options = {}) {
  absl::StatusOr<Program> program = BuildProgram(HalfNet(dtype), options);
  REQUIRE_MESSAGE(program.ok(), program.status().ToString());
  return *std::move(program);
}

const Tensor* Find(const Program& program, const std::string& name) {
  for (const Tensor& tensor : program.tensors) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

std::vector<std::string> StepNames(const Program& program) {
  std::vector<std::string> names;
  for (const Step& step : program.steps) names.push_back(program.StepName(step));
  return names;
}

TEST_CASE("images, activations and their gradients have 16 bits, parameters' gradients 32") {
  const Program program = ProgramOf(DType::kBf16);
  for (const char* name : {"input", "conv", "bn", "fc", "conv.grad", "fc.grad"}) {
    CAPTURE(name);
    REQUIRE(Find(program, name) != nullptr);
    CHECK(Find(program, name)->spec.dtype == DType::kBf16);
  }
  for (const char* name : {"conv.weight.grad", "bn.weight", "bn.weight.grad", "bn.mean", "fc.bias",
                           "bn.running_mean", "loss", "loss.metrics"}) {
    CAPTURE(name);
    REQUIRE(Find(program, name) != nullptr);
    CHECK(Find(program, name)->spec.dtype == DType::kFp32);
  }
}

TEST_CASE("a 16-bit weight is the copy of an fp32 master, which files hold") {
  const Program program = ProgramOf(DType::kBf16);
  const Tensor& master = *Find(program, "conv.weight");
  const Tensor& copy = *Find(program, "conv.weight.bf16");
  CHECK(master.role == Role::kMaster);
  CHECK(master.spec.dtype == DType::kFp32);
  CHECK(master.in_checkpoint);
  CHECK(copy.role == Role::kParam);
  CHECK(copy.spec.dtype == DType::kBf16);
  CHECK(!copy.in_checkpoint);
  CHECK(copy.copy_of == master.id);
  CHECK(&program.Original(copy) == &master);
  CHECK(Find(program, "conv.weight.momentum")->spec.dtype == DType::kFp32);
  CHECK(Find(program, "fc.bias")->role == Role::kParam);  // fp32: no master

  const auto update = std::find_if(program.steps.begin(), program.steps.end(), [&](const Step& s) {
    return program.StepName(s) == "conv update";
  });
  REQUIRE(update != program.steps.end());
  CHECK(update->writes == std::vector<Use>{{copy.id, {Slot::kParam, 0}}});
  const auto& accumulates = update->accumulates;
  CHECK(std::find(accumulates.begin(), accumulates.end(), Use{master.id, {Slot::kMaster, 0}}) !=
        accumulates.end());
}

TEST_CASE("programs for training and inference have the same persistent tensors") {
  for (const DType dtype : {DType::kFp32, DType::kBf16, DType::kFp16}) {
    const Program training = ProgramOf(dtype);
    const Program inference = ProgramOf(dtype, {.mode = Mode::kInference});
    for (const Tensor& tensor : training.tensors) {
      if (IsPersistent(tensor.role)) CHECK(inference.tensor(tensor.id) == tensor);
    }
  }
}

TEST_CASE("without training, the 16-bit weight is the parameter") {
  const Program program = ProgramOf(DType::kFp16, {.mode = Mode::kInference, .trainable = false});
  CHECK(Find(program, "conv.weight")->spec.dtype == DType::kFp16);
  CHECK(Find(program, "conv.weight")->in_checkpoint);
  for (const char* name :
       {"conv.weight.fp16", "conv.weight.momentum", "loss_scale", "bn.running_mean.backup"})
    CHECK(Find(program, name) == nullptr);
  CHECK(BuildProgram(HalfNet(DType::kFp16), {.trainable = false}).status().code() ==
        absl::StatusCode::kInvalidArgument);
}

TEST_CASE("with a scaled loss, all gradients are checked before the first update") {
  const Program program = ProgramOf(DType::kFp16);
  std::vector<std::string> backward = StepNames(program);
  backward.erase(backward.begin(), backward.begin() + 4);  // forward
  CHECK(backward ==
        std::vector<std::string>{"loss backward_data", "fc backward_params", "fc backward_data",
                                 "fc check_gradients", "bn backward_data", "bn check_gradients",
                                 "conv backward_params", "conv check_gradients", "fc update",
                                 "bn update", "conv update", "loss update_scale"});
  REQUIRE(program.loss_scale.has_value());
  CHECK(program.tensor(*program.loss_scale).spec.elements() == kLossScaleValues);
  for (const Step& step : program.steps) {
    const auto reads = [&](const std::vector<Use>& uses) {
      return std::any_of(uses.begin(), uses.end(),
                         [&](const Use& use) { return use.tensor == *program.loss_scale; });
    };
    CAPTURE(program.StepName(step));
    const bool is_loss_gradient = program.StepName(step) == "loss backward_data";
    CHECK(reads(step.reads) == (is_loss_gradient || step.phase == Phase::kUpdate));
    CHECK(reads(step.accumulates) ==
          (step.phase == Phase::kCheckGradients || step.phase == Phase::kUpdateScale));
  }
}

TEST_CASE("with a scaled loss, an update can restore what forward has accumulated") {
  const Program program = ProgramOf(DType::kFp16);
  for (const std::string name : {"bn.running_mean", "bn.running_var"}) {
    const Tensor& backup = *Find(program, name + ".backup");
    CHECK(backup.copy_of == Find(program, name)->id);
    CHECK(!backup.in_checkpoint);
  }
  CHECK(Find(program, "loss.metrics.backup") == nullptr);
  CHECK(Find(ProgramOf(DType::kBf16), "bn.running_mean.backup") == nullptr);
}

// A loss that does not know the scale.
struct PlainLoss {
  static constexpr std::string_view kType = "plain_loss";
  absl::StatusOr<LayerSpec> Specify(LayerContext context) const {
    context.scales_loss = false;
    return SoftmaxCrossEntropy{}.Specify(context);
  }
  friend bool operator==(const PlainLoss&, const PlainLoss&) = default;
};

// A batch norm that does not say that it accumulates.
struct SilentNorm {
  static constexpr std::string_view kType = "silent_norm";
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const {
    absl::StatusOr<LayerSpec> spec = BatchNorm{}.Specify(context);
    if (spec.ok()) spec->states[0].accumulates = false;
    return spec;
  }
  friend bool operator==(const SilentNorm&, const SilentNorm&) = default;
};

TEST_CASE("a loss that ignores the scale is refused for fp16 only") {
  for (const DType dtype : {DType::kBf16, DType::kFp16}) {
    Graph net({.name = "net", .batch = 2, .dtype = dtype});
    const std::string x = net.Add("fc", FullyConnected{.out_features = 5}, {net.Input({3, 4, 4})});
    net.Loss(x, PlainLoss{});
    const absl::Status status = BuildProgram(net, {}).status();
    CHECK(status.ok() == (dtype == DType::kBf16));
    if (status.ok()) continue;
    CHECK(std::string(status.message()) ==
          "layer 'loss': the loss does not multiply its gradient by the loss scale, which fp16 "
          "needs (LayerContext::scales_loss); bf16 works without");
  }
}

TEST_CASE("a layer that accumulates into a state must say so in the state's spec") {
  Graph net({.name = "net", .batch = 2});
  const std::string x = net.Add("norm", SilentNorm{}, {net.Input({3, 1, 1})});
  net.Loss(x, SoftmaxCrossEntropy{});
  CHECK(std::string(BuildProgram(net, {}).status().message()) ==
        "layer 'norm': forward accumulates into its state running_mean, whose "
        "StateSpec::accumulates is false");
}

TEST_CASE("the scale is halved after an overflow, and doubled after many steps without one") {
  LossScale scale;
  scale.overflow = 1;
  scale.good_steps = 7;
  scale.Advance();
  CHECK(scale.scale == LossScale::kInitial / 2);
  CHECK(scale.skipped == 1);
  CHECK(scale.overflow == 0);
  for (float step = 0; step < LossScale::kGrowthInterval; ++step) {
    CHECK(scale.scale == LossScale::kInitial / 2);
    scale.Advance();
  }
  CHECK(scale.scale == LossScale::kInitial);
  CHECK(scale.good_steps == 0);
  for (int step = 0; step < 40; ++step) {
    scale.overflow = 1;
    scale.Advance();
  }
  CHECK(scale.scale == LossScale::kMin);
  scale = {.scale = LossScale::kMax, .good_steps = LossScale::kGrowthInterval - 1};
  scale.Advance();
  CHECK(scale.scale == LossScale::kMax);
}

}  // namespace
}  // namespace neap

#include "neap/core/step/step_signature.h"

#include <doctest/doctest.h>

#include "neap/core/program/program.h"
#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/join.h"
#include "neap/layers/softmax_cross_entropy.h"

namespace neap {
namespace {

TEST_CASE("a layer's step has the signature that it has in a network") {
  const std::vector<Layer> layers = {Convolution{.out_channels = 4, .kernel = 3, .padding = 1},
                                     BatchNorm{}, Relu{}};
  Graph net({.name = "small", .batch = 5});
  std::string x = net.Input({3, 6, 6});
  for (size_t i = 0; i < layers.size(); ++i)
    x = net.Add("layer" + std::to_string(i), layers[i], {x});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 2}, {x}), SoftmaxCrossEntropy{});
  const Program program = BuildProgram(net, {}).value();
  int compared = 0;
  for (const Step& step : program.steps) {
    const size_t layer = step.layer.index() - 1;  // the input is the first
    if (step.phase == Phase::kUpdate || layer >= layers.size()) continue;
    const TensorSpec x_spec = {{5, layer == 0 ? 3 : 4, 6, 6}};
    CAPTURE(program.StepName(step));
    CHECK(SignatureOf(layers[layer], step.phase, {x_spec}).value() == program.Signature(step));
    ++compared;
  }
  CHECK(compared == 6);  // no gradient of the images
}

TEST_CASE("a signature says what its kernels add to, as the layer declares it") {
  const TensorSpec x = {{2, 3, 6, 6}};
  const auto slots = [](const StepSignature& signature) {
    std::string text;
    for (Slot slot : {Slot::kInputGrad, Slot::kParam, Slot::kState, Slot::kOptimizer})
      if (signature.CanAccumulate(slot)) text += ToString({slot}) + " ";
    return text;
  };
  CHECK(slots(SignatureOf(Relu{}, Phase::kBackwardData, {x}).value()).empty());
  CHECK(slots(SignatureOf(Add{}, Phase::kForward, {x, x}).value()).empty());
  CHECK(slots(SignatureOf(Add{}, Phase::kBackwardData, {x, x}).value()) == "input_grad[0] ");
  CHECK(slots(SignatureOf(Concat{}, Phase::kBackwardData, {x, x}).value()) == "input_grad[0] ");
  CHECK(slots(SignatureOf(BatchNorm{}, Phase::kForward, {x}).value()) == "state[0] ");
  CHECK(slots(SignatureOf(BatchNorm{}, Phase::kBackwardData, {x}).value()).empty());
  CHECK(slots({.layer = Relu{}, .phase = Phase::kUpdate}) == "param[0] state[0] optimizer[0] ");
  CHECK(slots(AdditionSignature(x)) == "input_grad[0] ");
}

TEST_CASE("steps of a convolution are divisible, an update of its parameters is not") {
  const TensorSpec x = {{2, 3, 6, 6}};
  const Layer convolution = Convolution{.out_channels = 4};
  for (Phase phase : {Phase::kForward, Phase::kBackwardData, Phase::kBackwardParams}) {
    const StepSignature step = SignatureOf(convolution, phase, {x}).value();
    CHECK(IsDivisible(step));
    CHECK(SumsParts(step) == (phase == Phase::kBackwardParams));
    CHECK_FALSE(AddsToGradients(step));
  }
  const StepSignature params = SignatureOf(convolution, Phase::kBackwardParams, {x}).value();
  CHECK(AddsToGradients(AddingSignature(params)));
  CHECK(WritingSignature(AddingSignature(params)) == params);
  CHECK_FALSE(IsDivisible(SignatureOf(FullyConnected{4}, Phase::kForward, {x}).value()));
  CHECK_FALSE(IsDivisible(AdditionSignature(x)));

  Graph net({.name = "small", .batch = 2});
  net.Loss(net.Add("conv", convolution, {net.Input({3, 1, 1})}), SoftmaxCrossEntropy{});
  const Program program = BuildProgram(net, {}).value();
  for (const Step& step : program.steps) {
    CAPTURE(program.StepName(step));
    const bool divisible = program.layers[step.layer.index()].name == "conv";
    CHECK(IsDivisible(program.Signature(step)) == (divisible && step.phase != Phase::kUpdate));
  }
}

TEST_CASE("the type of a step is its layer's, unless the step is not the layer's") {
  const Layer relu = Relu{};
  for (Phase phase : {Phase::kForward, Phase::kBackwardData, Phase::kBackwardParams})
    CHECK(TypeOf(relu, phase) == "relu");
  CHECK(TypeOf(relu, Phase::kUpdate) == "sgd");
  CHECK(TypeOf(relu, Phase::kCheckGradients) == "loss_scale");
  CHECK(TypeOf(relu, Phase::kUpdateScale) == "loss_scale");
  CHECK(TypeOf(relu, Phase::kAddGradients) == Add::kType);
}

TEST_CASE("a phase that a layer has no step for is refused") {
  const TensorSpec x = {{2, 3, 6, 6}};
  CHECK(SignatureOf(Relu{}, Phase::kBackwardData, {x}).ok());
  CHECK(absl::IsInvalidArgument(SignatureOf(Relu{}, Phase::kBackwardParams, {x}).status()));
  CHECK(absl::IsInvalidArgument(SignatureOf(Relu{}, Phase::kUpdate, {x}).status()));
  CHECK(absl::IsInvalidArgument(
      SignatureOf(Convolution{.out_channels = 4, .kernel = 9}, Phase::kForward, {x}).status()));
}

}  // namespace
}  // namespace neap

#include "neap/core/step/step_signature.h"

#include <doctest/doctest.h>

#include "neap/core/program/program.h"
#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fully_connected.h"

namespace neap {
namespace {

TEST_CASE("a layer's step has the signature that it has in a network") {
  const std::vector<Layer> layers = {Convolution{.out_channels = 4, .kernel = 3, .padding = 1},
                                     BatchNorm{}, Relu{}};
  Graph net({.name = "small", .batch = 5});
  std::string x = net.Input({3, 6, 6});
  for (size_t i = 0; i < layers.size(); ++i)
    x = net.Add("layer" + std::to_string(i), layers[i], {x});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 2}, {x}));
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

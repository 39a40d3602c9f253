// The definitions of ChannelSlice, ChannelShuffle and ScaleShift;
// tests/layers/reference_channels.h has what they compute.
#include "neap/layers/channel_slice.h"

#include <doctest/doctest.h>

#include <limits>
#include <string>

#include "neap/core/step/operands.h"
#include "neap/layers/channel_shuffle.h"
#include "neap/layers/scale_shift.h"

namespace neap {
namespace {

const TensorSpec kImages = {.shape = {2, 5, 3, 4}};

std::string Refusal(const Layer& layer) {
  return std::string(layer.Specify({.inputs = {kImages}}).status().message());
}

TEST_CASE("a slice of channels lies within them") {
  const LayerSpec spec =
      Layer(ChannelSlice{.first = 2, .count = 3}).Specify({.inputs = {kImages}}).value();
  CHECK(spec.output.shape == Shape{2, 3, 3, 4});
  CHECK(Refusal(ChannelSlice{.first = 3, .count = 3}) == "cannot take 3 channels from 3 on of 5");
  CHECK(Refusal(ChannelSlice{.first = -1, .count = 1}) == "cannot take 1 channels from -1 on of 5");
  CHECK(Refusal(ChannelSlice{.first = 0, .count = 0}) == "cannot take 0 channels from 0 on of 5");
}

TEST_CASE("a shuffle has groups of as many channels each") {
  const LayerSpec spec = Layer(ChannelShuffle{.groups = 5}).Specify({.inputs = {kImages}}).value();
  CHECK(spec.output == kImages);
  REQUIRE(spec.steps.size() == 2);
  CHECK(spec.steps[1].reads.size() == 1);
  CHECK(Refusal(ChannelShuffle{.groups = 2}) == "cannot shuffle 5 channels in 2 groups");
  CHECK(Refusal(ChannelShuffle{.groups = 0}) == "cannot shuffle 5 channels in 0 groups");
}

TEST_CASE("a fixed scale is finite, and its gradient reads no values") {
  const LayerSpec spec = Layer(ScaleShift{.scale = 2}).Specify({.inputs = {kImages}}).value();
  CHECK(spec.output == kImages);
  REQUIRE(spec.steps.size() == 2);
  CHECK(spec.steps[1].reads.size() == 1);
  CHECK(spec.params.empty());
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(Refusal(ScaleShift{.scale = infinity}) == "scale inf and shift 0 must be finite");
}

using namespace operands;

TEST_CASE("a scale that is learned has a number for each channel, and its gradient reads values") {
  const auto specified = [](const ScaleShift& layer, const TensorSpec& x) {
    return Layer(layer).Specify({.inputs = {x}}).value();
  };
  const LayerSpec scale = specified({.scale = 1e-6F, .learns_scale = true}, kImages);
  REQUIRE(scale.params.size() == 1);
  CHECK(scale.params[0].name == "layer_scale");
  CHECK(scale.params[0].tensor.shape == Shape{5});
  CHECK(scale.params[0].saved_shape == Shape{5, 1, 1});
  CHECK(scale.params[0].init == Init{Init::Kind::kConstant, 1e-6F});
  CHECK(scale.steps[1].reads == std::vector<Operand>{X(), Param(0), Dy()});
  CHECK(scale.steps[1].writes == std::vector<Operand>{Dx(), ParamGrad(0)});
  const LayerSpec shift = specified({.shift = 2, .learns_shift = true}, {.shape = {2, 5, 7}});
  REQUIRE(shift.params.size() == 1);
  CHECK(shift.params[0].name == "layer_shift");
  CHECK(shift.params[0].saved_shape == Shape{5, 1});
  CHECK(shift.steps[1].reads == std::vector<Operand>{Dy()});
  CHECK(shift.steps[1].writes == std::vector<Operand>{Dx(), ParamGrad(0)});
  const LayerSpec both = specified({.learns_scale = true, .learns_shift = true}, kImages);
  CHECK(both.params.size() == 2);
  CHECK(both.steps[0].reads == std::vector<Operand>{X(), Param(0), Param(1)});
  CHECK(both.steps[1].writes == std::vector<Operand>{Dx(), ParamGrad(0), ParamGrad(1)});
}

}  // namespace
}  // namespace neap

// The definitions of ChannelSlice, ChannelShuffle and ScaleShift;
// tests/layers/reference_channels.h has what they compute.
#include "neap/layers/channel_slice.h"

#include <doctest/doctest.h>

#include <limits>
#include <string>

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
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(Refusal(ScaleShift{.scale = infinity}) == "scale inf and shift 0 must be finite");
}

}  // namespace
}  // namespace neap

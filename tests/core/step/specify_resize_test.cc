// The declarations of layers that give images other extents, and what they refuse.
#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <vector>

#include "neap/core/step/window.h"
#include "neap/layers/pooling.h"
#include "neap/layers/resize/pixel_shuffle.h"
#include "neap/layers/resize/resize.h"
#include "tests/core/step/specify_checks.h"

namespace neap {
namespace {

std::string ShapeOf(const Layer& layer, const Shape& x) {
  return Specified(layer, {Image(x)}).output.shape.ToString();
}

TEST_CASE("layers that interpolate or move elements read neither x nor y in backward") {
  const TensorSpec x = Image({2, 4, 6, 6}, Layout::kChannelsLast);
  for (const Layer& layer : {Layer(Resize{.scales = {2}}), Layer(AdaptiveAveragePool{.size = 3}),
                             Layer(PixelShuffle{}), Layer(PixelUnshuffle{})}) {
    CAPTURE(layer.type());
    const LayerSpec spec = Specified(layer, {x});
    CHECK(spec.output.layout == x.layout);
    CHECK(StepsText(spec) ==
          "forward: input[0] -> output[0]\n"
          "backward_data: output_grad[0] -> input_grad[0]\n");
    CHECK(Specified(layer, {x}, Mode::kInference).steps.size() == 1);
  }
  CHECK(Specified(Resize{.scales = {2}}, {x}).steps[0].flops == 0);
  const Resize linear = {.scales = {2, 1}, .mode = Resize::Mode::kLinear};
  CHECK(Specified(linear, {x}).steps[0].flops == 2.0 * 2 * (2 * 4 * 12 * 6));
}

TEST_CASE("extents of a resized image are the given ones, or the scaled ones rounded down") {
  CHECK(ShapeOf(Resize{.sizes = Extents{7, 3}}, {2, 3, 4, 5}) == "2x3x7x3");
  CHECK(ShapeOf(Resize{.sizes = 9}, {2, 3, 4}) == "2x3x9");
  CHECK(ShapeOf(Resize{.sizes = Extents{1, 2, 3}}, {2, 3, 4, 5, 6}) == "2x3x1x2x3");
  CHECK(ShapeOf(Resize{.scales = {2}}, {2, 3, 4, 5, 6}) == "2x3x8x10x12");
  CHECK(ShapeOf(Resize{.scales = {1, 1.5}}, {2, 3, 4, 5}) == "2x3x4x7");
  CHECK(ShapeOf(Resize{.scales = {0.7}}, {2, 3, 10, 20}) == "2x3x7x14");  // fp32's 0.7 is less
  CHECK(ShapeOf(Resize{.scales = {1.0 / 3}}, {2, 3, 9, 10}) == "2x3x3x3");
}

TEST_CASE("scaled extents are those of PyTorch, whose products are in fp64") {
  // int(extent * scale) of Python.
  CHECK(ShapeOf(Resize{.scales = {0.29}}, {2, 3, 100}) == "2x3x28");
  CHECK(ShapeOf(Resize{.scales = {0.58}}, {2, 3, 50, 100}) == "2x3x28x57");
  CHECK(ShapeOf(Resize{.scales = {1.15}}, {2, 3, 100, 20}) == "2x3x114x23");
  CHECK(ShapeOf(Resize{.scales = {4.0 / 3}}, {2, 3, 3, 21}) == "2x3x4x28");
}

TEST_CASE("sizes and scales that suit no image are refused") {
  const std::vector<TensorSpec> x = {Image({2, 4, 6, 6})};
  CheckRefused(Resize{}, x, "takes either sizes or scales");
  CheckRefused(Resize{.sizes = 2, .scales = {2}}, x, "takes either sizes or scales");
  CheckRefused(Resize{.sizes = Extents{0, 3}}, x,
               "sizes=0x3 makes 0 positions of 6, but there must be at least 1 and at most 2^30");
  CheckRefused(Resize{.sizes = Extents{1, 2, 3}}, x,
               "sizes 1x2x3 has 3 numbers, but the image has 2 axes");
  CheckRefused(Resize{.scales = {1, 2, 3}}, x,
               "scales=1x2x3 has 3 numbers, but the image has 2 axes");
  CheckRefused(Resize{.scales = {0.1}}, x,
               "scales=0.1 makes 0 positions of 6, but there must be at least 1 and at most 2^30");
  CheckRefused(Resize{.scales = {0x1p29}}, x,
               "scales=536870912 makes 3221225472 positions of 6, but there must be at least 1 "
               "and at most 2^30");
  for (const double scale : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(),
                             std::numeric_limits<double>::infinity()})
    CHECK_FALSE(Layer(Resize{.scales = {scale}}).Specify({.inputs = x}).ok());
  CheckRefused(Resize{.scales = {2}, .cubic_coefficient = std::numeric_limits<float>::infinity()},
               x, "cubic_coefficient must be finite");
}

TEST_CASE("the text of a resize names what its mode depends on") {
  CHECK(Layer(Resize{.scales = {2}}).Parameters() ==
        "scales=2 mode=nearest coordinates=half_pixel rounding=prefer_ceil");
  CHECK(Layer(Resize{.sizes = Extents{3, 4}, .mode = Resize::Mode::kLinear}).Parameters() ==
        "sizes=3x4 mode=linear coordinates=half_pixel");
  CHECK(Layer(Resize{.scales = {1, 1.5},
                     .mode = Resize::Mode::kCubic,
                     .coordinates = Resize::Coordinates::kAlignCorners})
            .Parameters() ==
        "scales=1x1.5 mode=cubic coordinates=align_corners "
        "cubic_coefficient=-0.75");
  CHECK(ParseResizeMode("cubic").value() == Resize::Mode::kCubic);
  CHECK(ParseResizeCoordinates("asymmetric").value() == Resize::Coordinates::kAsymmetric);
  CHECK(ParseResizeRounding("floor").value() == Resize::Rounding::kFloor);
  CHECK(ParseResizeMode("bilinear").status().message() ==
        "unknown mode 'bilinear'; known: nearest, linear, cubic");
}

TEST_CASE("adaptive average pooling has the windows that are asked for, but more than one") {
  CHECK(ShapeOf(AdaptiveAveragePool{.size = 7}, {2, 3, 10, 5}) == "2x3x7x7");
  CHECK(ShapeOf(AdaptiveAveragePool{.size = {1, 2, 3}}, {2, 3, 4, 5, 6}) == "2x3x1x2x3");
  const std::vector<TensorSpec> x = {Image({2, 4, 6, 6})};
  CheckRefused(AdaptiveAveragePool{.size = 1}, x,
               "one window along every axis is a global_average_pool");
  CheckRefused(AdaptiveAveragePool{.size = {2, 0}}, x,
               "size=2x0 makes 0 positions of 6, but there must be at least 1 and at most 2^30");
  CheckRefused(AdaptiveAveragePool{.size = Extents::Of({2})}, x,
               "size 2 has 1 number, but the image has 2 axes");
}

TEST_CASE("pixels of blocks are channels, and the other way round") {
  CHECK(ShapeOf(PixelShuffle{.factor = 3}, {2, 18, 4, 5}) == "2x2x12x15");
  CHECK(ShapeOf(PixelUnshuffle{.factor = 3}, {2, 2, 12, 15}) == "2x18x4x5");
  CHECK(ShapeOf(PixelShuffle{}, {2, 6, 4}) == "2x3x8");
  CHECK(ShapeOf(PixelUnshuffle{}, {2, 3, 4, 6, 8}) == "2x24x2x3x4");
  const std::vector<TensorSpec> x = {Image({2, 6, 6, 8})};
  CheckRefused(PixelShuffle{}, x, "cannot make blocks of 4 pixels of 6 channels");
  CheckRefused(PixelUnshuffle{.factor = 3}, x, "cannot divide the image 6x8 into blocks of 3");
  CheckRefused(PixelShuffle{.factor = 0}, x, "factor 0 must be positive");
  CheckRefused(PixelUnshuffle{.factor = -2}, x, "factor -2 must be positive");
  CheckRefused(PixelShuffle{.factor = int64_t{1} << 40}, x,
               "cannot make blocks of 9223372036854775807 pixels of 6 channels");
  CHECK(Layer(PixelShuffle{}).Parameters() == "factor=2");
  CHECK(Layer(PixelUnshuffle{.factor = 4, .blocks_first = true}).Parameters() ==
        "factor=4 blocks_first=true");
}

}  // namespace
}  // namespace neap

// The sizes of windows, crops and paddings, and which of them layers refuse.
#include <doctest/doctest.h>

#include <limits>
#include <vector>

#include "neap/core/step/window.h"
#include "neap/layers/activation.h"
#include "neap/layers/convolution.h"
#include "neap/layers/crop.h"
#include "neap/layers/lrn.h"
#include "neap/layers/pooling.h"
#include "neap/layers/transposed_convolution.h"
#include "neap/layers/zero_pad.h"
#include "tests/core/step/specify_checks.h"

namespace neap {
namespace {

TEST_CASE("windows that do not fit are refused") {
  const std::vector<TensorSpec> x = {Image({2, 6, 5, 5})};
  CheckRefused(Convolution{.out_channels = 4, .kernel = 7}, x,
               "kernel 7x7 with dilation 1x1 is larger than the image 5x5 with padding 0x0");
  CheckRefused(Convolution{.out_channels = 4, .kernel = 3, .dilation = 3}, x,
               "kernel 3x3 with dilation 3x3 is larger than the image 5x5 with padding 0x0");
  CheckRefused(Convolution{.out_channels = 4, .kernel = {0, 1}}, x, "kernel 0x1 must be positive");
  CheckRefused(Convolution{.out_channels = 4, .stride = 0}, x, "stride 0x0 must be positive");
  CheckRefused(Convolution{.out_channels = 4, .dilation = 0}, x, "dilation 0x0 must be positive");
  CheckRefused(Convolution{.out_channels = 4, .padding = -1}, x,
               "padding -1x-1 must not be negative");
  CheckRefused(MaxPool{.kernel = 3, .padding = 2}, x,
               "padding 2x2 is more than half the kernel 3x3");
  CheckRefused(AveragePool{.kernel = 6}, x,
               "kernel 6x6 with dilation 1x1 is larger than the image 5x5 with padding 0x0");
}

TEST_CASE("windows whose sums and products would overflow are refused") {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  const std::vector<TensorSpec> x = {Image({2, 6, 5, 5})};
  CheckRefused(Convolution{.out_channels = 4, .kernel = 3, .dilation = kMax}, x,
               "dilation 9223372036854775807x9223372036854775807 must be at most 2147483647");
  CheckRefused(Convolution{.out_channels = 4, .padding = {0, kMax / 2}}, x,
               "padding 0x4611686018427387903 must be at most 2147483647");
  CheckRefused(Convolution{.out_channels = 4, .kernel = kMax}, x,
               "kernel 9223372036854775807x9223372036854775807 must be at most 2147483647");
  CheckRefused(MaxPool{.kernel = {2, kMax}, .padding = kMax}, x,
               "kernel 2x9223372036854775807 must be at most 2147483647");
  CheckRefused(AveragePool{.kernel = 2, .stride = int64_t{1} << 32}, x,
               "stride 4294967296x4294967296 must be at most 2147483647");
  CheckRefused(TransposedConvolution{.out_channels = 4, .kernel = 2, .stride = kMax}, x,
               "stride 9223372036854775807x9223372036854775807 must be at most 2147483647");
  CheckRefused(LocalResponseNorm{.size = kMax}, x,
               "size 9223372036854775807 must be at most 2147483647");
  CheckRefused(Relu{}, {Image({1, 1, 1, kMax})},
               "input 0, 1x1x1x9223372036854775807 fp32 nchw, is larger than 16 TiB");
}

TEST_CASE("the largest windows and images have the sizes that they should") {
  constexpr int64_t kMax = kMaxWindowExtent;
  const LayerSpec wide = Specified(
      Convolution{.out_channels = 1, .kernel = 2, .padding = kMax, .dilation = kMax, .bias = false},
      {Image({1, 1, 2, 2})});
  CHECK(wide.output.shape == Shape{1, 1, kMax + 2, kMax + 2});
  const LayerSpec pooled = Specified(
      MaxPool{.kernel = {kMax, 1}, .stride = 1, .padding = {kMax / 2, 0}}, {Image({1, 1, 3, 3})});
  CHECK(pooled.output.shape == Shape{1, 1, 3, 3});
  CHECK(pooled.steps[0].flops == 9.0 * static_cast<double>(kMax));
  const LayerSpec high = Specified(TransposedConvolution{.out_channels = kMax, .stride = kMax},
                                   {Image({1, 1, int64_t{1} << 40, 1})});
  CHECK(high.output.shape.h() == int64_t{1} << 62);
  CHECK(high.output.size_bytes() == std::numeric_limits<int64_t>::max());
}

TEST_CASE("a transposed convolution undoes what a convolution does to the size") {
  const TensorSpec x = Image({2, 6, 5, 4});
  const LayerSpec spec =
      Specified(TransposedConvolution{.out_channels = 3, .kernel = 4, .stride = 2}, {x});
  CHECK(spec.output.shape == Shape{2, 3, 12, 10});
  CHECK(spec.params[0].tensor.shape == Shape{6, 3, 4, 4});
  CHECK(Specified(Convolution{.out_channels = 6, .kernel = 4, .stride = 2}, {spec.output})
            .output.shape == x.shape);
  CHECK(StepsText(spec) ==
        "forward: input[0] param[0] param[1] -> output[0]\n"
        "backward_params: input[0] output_grad[0] -> param_grad[0] param_grad[1]\n"
        "backward_data: output_grad[0] param[0] -> input_grad[0]\n");
  CheckRefused(TransposedConvolution{}, {x}, "out_channels 0 must be positive");
  CheckRefused(TransposedConvolution{.out_channels = 1, .stride = 0}, {x},
               "stride 0x0 must be positive");
  CheckRefused(TransposedConvolution{.out_channels = 1, .padding = 2}, {x},
               "padding 2x2 leaves no output for the image 5x4");
}

TEST_CASE("a crop lies within its image") {
  const TensorSpec x = Image({2, 6, 5, 4});
  const LayerSpec spec = Specified(Crop{.size = {3, 2}, .offset = {2, 2}}, {x});
  CHECK(spec.output.shape == Shape{2, 6, 3, 2});
  CHECK(StepsText(spec) ==
        "forward: input[0] -> output[0]\nbackward_data: output_grad[0] -> input_grad[0]\n");
  CheckRefused(Crop{.size = {3, 3}, .offset = {2, 2}}, {x},
               "cannot cut 3x3 at 2,2 out of the image 5x4");
  CheckRefused(Crop{.size = 0}, {x}, "cannot cut 0x0 at 0,0 out of the image 5x4");
  CheckRefused(Crop{.size = 1, .offset = -1}, {x}, "cannot cut 1x1 at -1,-1 out of the image 5x4");
}

TEST_CASE("zeros are added on every side, and not taken away") {
  constexpr int64_t kMax = kMaxWindowExtent;
  const TensorSpec x = Image({2, 6, 5, 4});
  const LayerSpec spec = Specified(ZeroPad{.top = 1, .left = 2, .bottom = 3, .right = 4}, {x});
  CHECK(spec.output.shape == Shape{2, 6, 9, 10});
  CHECK(StepsText(spec) ==
        "forward: input[0] -> output[0]\nbackward_data: output_grad[0] -> input_grad[0]\n");
  CHECK(Specified(ZeroPad{}, {x}).output == x);
  CHECK(Specified(ZeroPad{.top = kMax, .bottom = kMax}, {x}).output.shape.h() == 2 * kMax + 5);
  CheckRefused(ZeroPad{.left = -1}, {x},
               "top=0 left=-1 bottom=0 right=0 must be between 0 and 2147483647");
  CheckRefused(ZeroPad{.right = kMax + 1}, {x},
               "top=0 left=0 bottom=0 right=2147483648 must be between 0 and 2147483647");
}

}  // namespace
}  // namespace neap

// What layers declare for sequences {N, C, T}, images and volumes {N, C, D, H, W}: shapes counted
// position by position, texts, and what they refuse.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "neap/core/graph/source.h"
#include "neap/core/step/specify.h"
#include "neap/core/step/window.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/channel_shuffle.h"
#include "neap/layers/channel_slice.h"
#include "neap/layers/convolution.h"
#include "neap/layers/crop.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/join.h"
#include "neap/layers/lrn.h"
#include "neap/layers/multiply.h"
#include "neap/layers/norm/group_norm.h"
#include "neap/layers/norm/layer_norm.h"
#include "neap/layers/pooling.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/layers/target_loss.h"
#include "neap/layers/transposed_convolution.h"
#include "neap/layers/zero_pad.h"

namespace neap {
namespace {

TensorSpec Floats(Shape shape, Layout layout = Layout::kChannelsFirst) {
  return {.shape = std::move(shape), .layout = layout};
}

absl::StatusOr<LayerSpec> Specify(const Layer& layer, const std::vector<TensorSpec>& inputs) {
  return layer.Specify({.inputs = inputs});
}

// The output's shape, or the error.
std::string OutputOf(const Layer& layer, const std::vector<TensorSpec>& inputs) {
  const absl::StatusOr<LayerSpec> spec = Specify(layer, inputs);
  return spec.ok() ? spec->output.ToString() : std::string(spec.status().message());
}

// The number of windows along one axis: places a window at every stride and counts those that end
// within the padded tensor.
int64_t Counted(int64_t size, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation) {
  int64_t count = 0;
  for (int64_t begin = -padding; begin + dilation * (kernel - 1) < size + padding; begin += stride)
    ++count;
  return count;
}

// The extent that a transposed convolution gives: the last element that one of x reaches.
int64_t Reached(int64_t size, int64_t kernel, int64_t stride, int64_t padding) {
  int64_t last = 0;
  for (int64_t i = 0; i < size; ++i) last = i * stride + kernel;
  return last - 2 * padding;
}

struct Windowed {
  std::vector<int64_t> sizes, kernel, stride, padding, dilation;
};

const std::vector<Windowed> kWindows = {{{11}, {3}, {2}, {1}, {1}},
                                        {{40}, {5}, {3}, {4}, {2}},
                                        {{9, 8}, {3, 2}, {2, 1}, {1, 0}, {1, 3}},
                                        {{7, 8, 9}, {3, 2, 1}, {1, 2, 3}, {1, 1, 0}, {2, 1, 1}},
                                        {{16, 5, 12}, {7, 3, 3}, {2, 1, 2}, {3, 1, 1}, {1, 1, 1}}};

Shape Behind(int64_t n, int64_t c, const std::vector<int64_t>& extents) {
  return SpatialShape(n, c, extents);
}

TEST_CASE("a convolution of 1 to 3 axes has a position for every window that fits") {
  for (const Windowed& w : kWindows) {
    std::vector<int64_t> out;
    int64_t taps = 1;
    for (size_t i = 0; i < w.sizes.size(); ++i) {
      out.push_back(Counted(w.sizes[i], w.kernel[i], w.stride[i], w.padding[i], w.dilation[i]));
      taps *= w.kernel[i];
    }
    const Convolution layer = {.out_channels = 8,
                               .kernel = Extents::Of(w.kernel),
                               .stride = Extents::Of(w.stride),
                               .padding = Extents::Of(w.padding),
                               .dilation = Extents::Of(w.dilation),
                               .groups = 2};
    for (const Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
      const TensorSpec x = Floats(Behind(5, 6, w.sizes), layout);
      CAPTURE(x.ToString());
      const absl::StatusOr<LayerSpec> spec = Specify(layer, {x});
      REQUIRE(spec.ok());
      CHECK(spec->output == Floats(Behind(5, 8, out), layout));
      CHECK(spec->params[0].tensor == Floats(Behind(8, 3, w.kernel), layout));
      CHECK(spec->params[1].tensor.shape == Shape{8});
      CHECK(spec->params[0].init.scale ==
            doctest::Approx(1 / std::sqrt(3 * static_cast<double>(taps))));
      const double multiply_adds = static_cast<double>(spec->output.elements() * 3 * taps);
      CHECK(spec->steps[0].flops == 2 * multiply_adds);
    }
  }
}

TEST_CASE("a transposed convolution of 1 to 3 axes ends where its last element reaches") {
  for (const Windowed& w : kWindows) {
    std::vector<int64_t> out;
    for (size_t i = 0; i < w.sizes.size(); ++i)
      out.push_back(Reached(w.sizes[i], w.kernel[i], w.stride[i], w.padding[i]));
    const TransposedConvolution layer = {.out_channels = 4,
                                         .kernel = Extents::Of(w.kernel),
                                         .stride = Extents::Of(w.stride),
                                         .padding = Extents::Of(w.padding)};
    const absl::StatusOr<LayerSpec> spec = Specify(layer, {Floats(Behind(2, 3, w.sizes))});
    REQUIRE(spec.ok());
    CHECK(spec->output.shape == Behind(2, 4, out));
    CHECK(spec->params[0].tensor.shape == Behind(3, 4, w.kernel));
  }
}

TEST_CASE("poolings of 1 to 3 axes have the windows of convolutions, and one more if rounded up") {
  for (Windowed w : kWindows) {
    std::vector<int64_t> out, rounded_up;
    for (size_t i = 0; i < w.sizes.size(); ++i) {
      w.padding[i] = std::min(w.padding[i], w.kernel[i] / 2);
      out.push_back(Counted(w.sizes[i], w.kernel[i], w.stride[i], w.padding[i], w.dilation[i]));
      // A window more, if windows at this stride do not end with the padded tensor and it begins
      // in the tensor or before.
      const int64_t next = out[i] * w.stride[i] - w.padding[i];
      const int64_t end = next - w.stride[i] + w.dilation[i] * (w.kernel[i] - 1) + 1;
      rounded_up.push_back(out[i] + (end < w.sizes[i] + w.padding[i] && next < w.sizes[i] ? 1 : 0));
    }
    MaxPool max = {.kernel = Extents::Of(w.kernel),
                   .stride = Extents::Of(w.stride),
                   .padding = Extents::Of(w.padding),
                   .dilation = Extents::Of(w.dilation)};
    const TensorSpec x = Floats(Behind(2, 3, w.sizes));
    CHECK(OutputOf(max, {x}) == Floats(Behind(2, 3, out)).ToString());
    max.ceil_mode = true;
    CHECK(OutputOf(max, {x}) == Floats(Behind(2, 3, rounded_up)).ToString());
    const AveragePool average = {.kernel = max.kernel,
                                 .stride = max.stride,
                                 .padding = max.padding,
                                 .dilation = max.dilation};
    CHECK(OutputOf(average, {x}) == Floats(Behind(2, 3, out)).ToString());
  }
}

TEST_CASE(
    "a max pool of volumes needs a larger index where its window has more than 256 elements") {
  const auto index = [](Extents kernel) {
    return Specify(MaxPool{.kernel = kernel}, {Floats({1, 1, 8, 8, 8})})->saved[0].tensor.dtype;
  };
  CHECK(index(6) == DType::kUInt8);  // 216
  CHECK(index(7) == DType::kInt32);  // 343
  CHECK(index({8, 8, 4}) == DType::kUInt8);
}

TEST_CASE("one number is the same along every axis, and a list has one for each") {
  const TensorSpec sequence = Floats({2, 4, 9}), image = Floats({2, 4, 9, 9}),
                   volume = Floats({2, 4, 9, 9, 9});
  const Convolution every = {.out_channels = 1, .kernel = 3, .padding = 1};
  CHECK(OutputOf(every, {sequence}) == "2x1x9 fp32 ncw");
  CHECK(OutputOf(every, {image}) == "2x1x9x9 fp32 nchw");
  CHECK(OutputOf(every, {volume}) == "2x1x9x9x9 fp32 ncdhw");
  CHECK(OutputOf(Convolution{.out_channels = 1, .kernel = {3, 3}}, {volume}) ==
        "kernel 3x3 has 2 numbers, but the volume has 3 axes");
  CHECK(OutputOf(Convolution{.out_channels = 1, .kernel = {3, 3, 3}}, {image}) ==
        "kernel 3x3x3 has 3 numbers, but the image has 2 axes");
  CHECK(OutputOf(MaxPool{.stride = Extents::Of({2})}, {image}) ==
        "stride 2 has 1 number, but the image has 2 axes");
  CHECK(OutputOf(Crop{.size = {2, 2}}, {sequence}) ==
        "size 2x2 has 2 numbers, but the sequence has 1 axis");
}

TEST_CASE("extents along the depth are those of volumes, also of one number for every axis") {
  constexpr Extents kVolume = {4, 5, 6};
  static_assert(kVolume.d(3, 1) == 4 && kVolume.h() == 5 && kVolume.w() == 6);
  static_assert(Extents(3).d(3, 1) == 3 && Extents(3).h() == 3);
  static_assert(Extents(3).d(2, 1) == 1 && Extents(3, 3).d(2, 0) == 0);
  CHECK(Extents(3).Along(3).d(3, 1) == 3);
  CHECK(ZeroPad{.top = 1, .left = 2, .front = 3}.offset() == Extents(3, 1, 2));
}

TEST_CASE("the texts of windows over images are those of before") {
  CHECK(Layer(Convolution{.out_channels = 8, .kernel = 3, .padding = {1, 2}}).Parameters() ==
        "out_channels=8 kernel=3x3 stride=1x1 padding=1x2 dilation=1x1 groups=1 bias=true");
  CHECK(Layer(MaxPool{.kernel = {3, 1, 1}, .stride = 2}).Parameters() ==
        "kernel=3x1x1 stride=2x2 padding=0x0");
  CHECK(Layer(AveragePool{.kernel = Extents::Of({5})}).Parameters() ==
        "kernel=5 stride=2x2 padding=0x0 count_padding=true");
  CHECK(Layer(Crop{.size = {4, 5, 6}, .offset = {0, 1, 2}}).Parameters() ==
        "size=4x5x6 offset=0x1x2");
  CHECK(Layer(ZeroPad{.left = 1}).Parameters() == "top=0 left=1 bottom=0 right=0");
  CHECK(Layer(ZeroPad{.front = 2}).Parameters() == "top=0 left=0 bottom=0 right=0 front=2 back=0");
  CHECK(Extents(3) == Extents(3, 3));
  CHECK(Extents(3) != Extents(3, 3, 3));
  CHECK(Extents(3) != Extents::Of({3}));
}

TEST_CASE("windows that are larger than what they slide over are refused by name") {
  CHECK(OutputOf(Convolution{.out_channels = 1, .kernel = 9}, {Floats({1, 1, 4})}) ==
        "kernel 9 with dilation 1 is larger than the sequence 4 with padding 0");
  CHECK(OutputOf(Convolution{.out_channels = 1, .kernel = {3, 9, 3}}, {Floats({1, 1, 4, 4, 4})}) ==
        "kernel 3x9x3 with dilation 1x1x1 is larger than the volume 4x4x4 with padding 0x0x0");
  CHECK(OutputOf(MaxPool{.kernel = {3, 3, 3}, .padding = {1, 2, 1}}, {Floats({1, 1, 4, 4, 4})}) ==
        "padding 1x2x1 is more than half the kernel 3x3x3");
  CHECK(OutputOf(TransposedConvolution{.out_channels = 1, .padding = 1}, {Floats({1, 1, 1})}) ==
        "padding 1 leaves no output for the sequence 1");
  CHECK(OutputOf(Crop{.size = {2, 2, 5}}, {Floats({1, 1, 4, 4, 4})}) ==
        "cannot cut 2x2x5 at 0,0,0 out of the volume 4x4x4");
}

TEST_CASE("crops and zeros change the extents of the axes that there are") {
  CHECK(OutputOf(Crop{.size = Extents::Of({4}), .offset = Extents::Of({3})}, {Floats({2, 3, 7})}) ==
        "2x3x4 fp32 ncw");
  CHECK(OutputOf(Crop{.size = {1, 2, 3}, .offset = {3, 2, 1}}, {Floats({2, 3, 4, 4, 4})}) ==
        "2x3x1x2x3 fp32 ncdhw");
  CHECK(OutputOf(ZeroPad{.left = 2, .right = 3}, {Floats({2, 3, 7})}) == "2x3x12 fp32 ncw");
  const ZeroPad all = {.top = 1, .left = 2, .bottom = 3, .right = 4, .front = 5, .back = 6};
  CHECK(OutputOf(all, {Floats({2, 3, 4, 5, 6})}) == "2x3x15x9x12 fp32 ncdhw");
  CHECK(OutputOf(ZeroPad{.top = 1}, {Floats({2, 3, 7})}) ==
        "top=1 left=0 bottom=0 right=0 pads an axis that the sequence does not have");
  CHECK(OutputOf(ZeroPad{.back = 1}, {Floats({2, 3, 7, 7})}) ==
        "top=0 left=0 bottom=0 right=0 front=0 back=1 pads an axis that the image does not have");
}

TEST_CASE("layers without windows keep all axes") {
  for (const Shape& shape : {Shape{2, 6, 7}, Shape{2, 6, 7, 8}, Shape{2, 6, 7, 8, 9}}) {
    const TensorSpec x = Floats(shape, Layout::kChannelsLast);
    CAPTURE(x.ToString());
    const auto of_channels = [&](int64_t c) {
      return Floats(SpatialShape(2, c, shape.spatial()), Layout::kChannelsLast);
    };
    const std::string same = x.ToString();
    CHECK(OutputOf(BatchNorm{}, {x}) == same);
    CHECK(Specify(BatchNorm{}, {x})->values_per_variance == 2 * shape.positions());
    CHECK(OutputOf(GroupNorm{.groups = 3}, {x}) == same);
    CHECK(OutputOf(LayerNorm{}, {x}) == same);
    CHECK(Specify(LayerNorm{}, {x})->saved[0].tensor.shape == SpatialShape(2, 1, shape.spatial()));
    CHECK(Specify(InstanceNorm{}, {x})->values_per_variance == shape.positions());
    CHECK(OutputOf(LocalResponseNorm{}, {x}) == same);
    CHECK(OutputOf(Add{}, {x, x}) == same);
    CHECK(OutputOf(Add{}, {x, Floats({2, 6, 1, 1}, Layout::kChannelsLast)}) == same);
    CHECK(OutputOf(Multiply{}, {x, x}) == same);
    CHECK(OutputOf(Multiply{}, {x, Floats({2, 6, 1, 1}, Layout::kChannelsLast)}) == same);
    CHECK(OutputOf(ChannelShuffle{.groups = 3}, {x}) == same);
    CHECK(OutputOf(ChannelSlice{.first = 1, .count = 4}, {x}) == of_channels(4).ToString());
    CHECK(OutputOf(Concat{}, {x, of_channels(5)}) == of_channels(11).ToString());
    CHECK(OutputOf(Concat{}, {x, Floats({2, 6, 3}, Layout::kChannelsLast)}).find("cannot") == 0);
    const std::vector<int64_t> ones(shape.spatial().size(), 1);
    CHECK(OutputOf(GlobalAveragePool{}, {x}) ==
          Floats(SpatialShape(2, 6, ones), Layout::kChannelsLast).ToString());
    const LayerSpec dense = *Specify(FullyConnected{.out_features = 5}, {x});
    CHECK(dense.output.shape == Shape{2, 5, 1, 1});
    CHECK(dense.params[0].saved_shape == Shape{5, 6 * shape.positions()});
    CHECK(dense.params[0].tensor.shape == SpatialShape(5, 6, shape.spatial()));
  }
}

TEST_CASE("losses take a label for each position") {
  CHECK(LabelShape({4, 3, 7}) == Shape{4, 7});
  CHECK(LabelShape({4, 3, 7, 8}) == Shape{4, 7, 8});
  CHECK(LabelShape({4, 3, 7, 8, 9}) == Shape{4, 7, 8, 9});
  for (const Shape& one : {Shape{4, 3, 1}, Shape{4, 3, 1, 1}, Shape{4, 3, 1, 1, 1}})
    CHECK(LabelShape(one) == Shape{4});
  const TensorSpec logits = Floats({4, 3, 7, 8, 9});
  const TensorSpec labels = {.shape = {4, 7, 8, 9}, .dtype = DType::kInt32};
  CHECK(OutputOf(SoftmaxCrossEntropy{}, {logits, labels}) == logits.ToString());
  CHECK(
      !Specify(SoftmaxCrossEntropy{}, {logits, {.shape = {4, 7, 8}, .dtype = DType::kInt32}}).ok());
  CHECK(OutputOf(MeanSquaredError{}, {logits, logits}) == logits.ToString());
}

TEST_CASE("layers of images alone refuse other axes") {
  const auto check = [](const Shape& shape) {
    const std::vector<TensorSpec> inputs = {Floats(shape)};
    return std::string(CheckImageInputs({.inputs = inputs}, 1).message());
  };
  CHECK(check({2, 3, 7, 8}).empty());
  CHECK(check({2, 3, 7}) == "input 0 is 2x3x7 fp32 ncw, expected an image {N, C, H, W}");
}

TEST_CASE("feeds with spatial axes have the layout of the network, and class indices have none") {
  CHECK(Feed{Floats({2, 3, 7})}.has_channels());
  CHECK(Feed{Floats({2, 3, 7, 8, 9})}.has_channels());
  CHECK(!Feed{Floats({2, 3})}.has_channels());
  CHECK(!Feed{{.shape = {2, 7, 8, 9}, .dtype = DType::kInt32}}.has_channels());
}

}  // namespace
}  // namespace neap

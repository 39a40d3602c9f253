// Cases of tensors with other numbers of spatial axes than images have: sequences {N, C, T} and
// volumes {N, C, D, H, W}.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "neap/core/step/specify.h"
#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/channel_shuffle.h"
#include "neap/layers/channel_slice.h"
#include "neap/layers/channel_split.h"
#include "neap/layers/crop.h"
#include "neap/layers/dropout.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/fusion/biased_gelu.h"
#include "neap/layers/join.h"
#include "neap/layers/lrn.h"
#include "neap/layers/multiply.h"
#include "neap/layers/pooling.h"
#include "neap/layers/prelu.h"
#include "neap/layers/scale_shift.h"
#include "neap/layers/transposed_convolution.h"
#include "neap/layers/zero_pad.h"
#include "tests/layers/case_list.h"

namespace neap::testing {

void CaseList::AddPointwise(const Shape& shape) {
  const int64_t n = shape.n(), c = shape.c();
  Add("relu", Relu{}, {shape});
  Add("leaky_relu", LeakyRelu{0.2F}, {shape});
  Add("clip", Clip{-0.7123F, 1.0591F}, {shape});
  Add("hard_swish", HardSwish{}, {shape});
  Add("gelu", Gelu{}, {shape});
  Add("bias, gelu", BiasedGelu{}, {shape});
  Add("prelu", Prelu{.slopes = c}, {shape});
  Add("scale_shift", ScaleShift{.scale = -0.7F, .shift = 0.3F}, {shape});
  AddLearnedScales(shape);
  Add("dropout", Dropout{0.3F}, {shape});
  AddDroppedUnits(0.3F, shape);
  AddResidualTails(shape);
  Add("lrn", LocalResponseNorm{.size = 3}, {shape});
  Add("batch_norm", BatchNorm{}, {shape});
  AddFusedNorms(shape);
  AddAveragedNorms(shape);
  AddSyncNorms(2, shape);
  AddImageNorms(shape);
  Add("add", neap::Add{}, {shape, shape});
  Add("multiply", Multiply{}, {shape, shape});
  const std::vector<int64_t> ones(shape.spatial().size(), 1);
  Add("add per channel", neap::Add{}, {shape, SpatialShape(n, c, ones)});
  Add("add a vector", neap::Add{}, {shape, {n, c, 1, 1}});
  Add("multiply per channel", Multiply{}, {shape, SpatialShape(n, c, ones)});
  Add("multiply by a vector", Multiply{}, {shape, {n, c, 1, 1}});
  Add("concat", Concat{}, {shape, SpatialShape(n, c + 3, shape.spatial())});
  AddConcatenatedNorms(shape, {c, 2, 5});
  AddConcatNorms(shape, {c, 2, 5});
  Add("channel_shuffle", ChannelShuffle{.groups = 2}, {SpatialShape(n, 2 * c, shape.spatial())});
  Add("channel_slice", ChannelSlice{.first = 1, .count = 2},
      {SpatialShape(n, c + 2, shape.spatial())});
  Add("channel_split", ChannelSplit{.channels = {c, 1, 2}},
      {SpatialShape(n, c + 3, shape.spatial())});
  Add("fully_connected", FullyConnected{.out_features = 7}, {shape});
  Add("global_average_pool", GlobalAveragePool{}, {shape});
  AddLosses(shape);
}

void CaseList::Sequences() {
  for (const Shape& shape : {Shape{2, 3, 7}, Shape{3, 8, 16}, Shape{1, 5, 1}, Shape{2, 4, 257}})
    AddPointwise(shape);
  const Shape shape = {2, 6, 19};
  AddConvolution({.out_channels = 4, .kernel = Extents::Of({5})}, shape);
  AddConvolution({.out_channels = 8,
                  .kernel = 3,
                  .stride = Extents::Of({2}),
                  .padding = 1,
                  .dilation = Extents::Of({2}),
                  .groups = 2},
                 shape);
  AddConvolution({.out_channels = 6, .kernel = 3, .padding = 1, .groups = 6, .bias = false}, shape);
  AddConvolution({.out_channels = 9, .bias = false}, shape);
  AddTransposed({.out_channels = 5, .kernel = Extents::Of({4}), .stride = 2, .padding = 1}, shape);
  AddPool(Extents::Of({3}), Extents::Of({2}), Extents::Of({1}), shape);
  AddPool(2, 2, 0, shape);
  AddDilated({.kernel = Extents::Of({3}), .stride = 2, .padding = 1, .dilation = 2}, shape);
  Add("crop 9 at 4", Crop{.size = Extents::Of({9}), .offset = Extents::Of({4})}, {shape});
  Add("zero_pad", ZeroPad{.left = 2, .right = 3}, {shape});
}

void CaseList::Volumes() {
  for (const Shape& shape :
       {Shape{2, 3, 4, 5, 6}, Shape{2, 8, 2, 4, 8}, Shape{3, 2, 1, 1, 1}, Shape{1, 4, 7, 1, 3}})
    AddPointwise(shape);
  const Shape shape = {2, 4, 4, 5, 7};
  // Windows along at most one of the outer and inner axes run as those of images.
  AddConvolution({.out_channels = 3}, shape);
  AddConvolution({.out_channels = 8, .kernel = {1, 1, 1}, .groups = 2, .bias = false}, shape);
  AddConvolution({.out_channels = 6, .kernel = {3, 1, 1}, .padding = {1, 0, 0}}, shape);
  AddConvolution({.out_channels = 5,
                  .kernel = {1, 1, 3},
                  .stride = {1, 1, 2},
                  .padding = {0, 0, 2},
                  .dilation = {1, 1, 2}},
                 shape);
  AddTransposed({.out_channels = 3, .kernel = {2, 1, 1}, .stride = {2, 1, 1}}, shape);
  AddPool({2, 1, 1}, {2, 1, 1}, {0, 0, 0}, shape);
  AddPool({1, 1, 3}, {1, 1, 2}, {0, 0, 1}, shape);
  AddConvolutionsOfVolumes();
  AddPoolsOfVolumes();
  Add("crop 2x2x2", Crop{.size = 2}, {shape});
  Add("crop 3x2x5 at 1x3x2", Crop{.size = {3, 2, 5}, .offset = {1, 3, 2}}, {shape});
  Add("crop of vectors", Crop{.size = {1, 3, 2}, .offset = {2, 0, 1}}, {{2, 16, 3, 4, 5}});
  for (const ZeroPad& layer :
       {ZeroPad{.front = 2}, ZeroPad{.bottom = 1, .right = 2, .back = 1},
        ZeroPad{.top = 1, .left = 2, .bottom = 3, .right = 4, .front = 5, .back = 6}})
    Add("zero_pad " + layer.Parameters(), layer, {{2, 8, 2, 3, 2}});
  for (int i = 0; i < kRandomCasesPerLayer / 2; ++i) AddRandomVolume();
}

void CaseList::AddConvolutionsOfVolumes() {
  const Shape shape = {2, 4, 4, 5, 7};
  AddConvolution({.out_channels = 8, .kernel = 3, .padding = 1}, {2, 3, 5, 6, 4});
  AddConvolution({.out_channels = 16, .kernel = 3, .padding = 1, .bias = false}, {1, 16, 4, 4, 4});
  AddConvolution({.out_channels = 32, .kernel = 2, .stride = 2, .bias = false}, {2, 16, 4, 6, 4});
  AddConvolution({.out_channels = 4, .kernel = 7, .stride = 2, .padding = 3}, {1, 1, 9, 8, 7});
  // First layers, whose windows along W may become channels.
  AddConvolution({.out_channels = 8, .kernel = 3, .padding = 1}, {2, 1, 4, 5, 6});
  AddConvolution({.out_channels = 4, .kernel = {2, 3, 5}, .padding = {1, 0, 2}, .bias = false},
                 {1, 4, 3, 4, 7});
  AddConvolution(
      {.out_channels = 4, .kernel = {3, 3, 4}, .stride = {2, 1, 3}, .padding = {1, 1, 0}},
      {2, 2, 5, 4, 9});
  AddConvolution({.out_channels = 6,
                  .kernel = {3, 2, 1},
                  .stride = {2, 1, 3},
                  .padding = {1, 0, 0},
                  .groups = 2},
                 shape);
  AddConvolution({.out_channels = 5, .kernel = {1, 3, 3}, .padding = {0, 1, 1}}, shape);
  AddConvolution({.out_channels = 5, .kernel = {1, 3, 1}, .padding = {0, 1, 0}}, shape);
  AddConvolution({.out_channels = 3,
                  .kernel = {2, 3, 2},
                  .padding = {1, 2, 0},
                  .dilation = {3, 2, 2},
                  .bias = false},
                 shape);
  AddConvolution({.out_channels = 5, .kernel = 2, .stride = 3}, shape);  // stride > kernel
  AddConvolution({.out_channels = 8, .stride = 2, .bias = false}, {2, 16, 5, 6, 7});
  AddConvolution({.out_channels = 3, .stride = {1, 2, 2}}, {2, 5, 3, 10, 7});
  AddConvolution({.out_channels = 8, .kernel = 3, .padding = 1, .groups = 8}, {2, 8, 4, 5, 3});
  AddConvolution({.out_channels = 6, .kernel = 3}, {1, 5, 3, 3, 3});  // one position
  AddTransposed({.out_channels = 4, .kernel = 2, .stride = 2}, {2, 8, 3, 4, 2});
  AddTransposed({.out_channels = 3, .kernel = 4, .stride = 2, .padding = 1}, {2, 5, 2, 3, 4});
  AddTransposed({.out_channels = 5, .kernel = {1, 3, 2}, .stride = {2, 1, 3}, .padding = {0, 1, 0}},
                shape);
}

void CaseList::AddPoolsOfVolumes() {
  AddPool(2, 2, 0, {2, 3, 4, 6, 8});
  AddPool(3, 2, 1, {2, 16, 5, 6, 7});  // vectors, whatever the type
  AddPool({3, 2, 1}, {1, 2, 3}, {1, 0, 0}, {2, 5, 4, 5, 7});
  AddPool({1, 3, 3}, {1, 2, 2}, {0, 1, 1}, {2, 8, 3, 7, 6});
  AddPool({2, 1, 3}, {3, 1, 2}, {1, 0, 1}, {2, 3, 5, 4, 6});
  AddPool(3, 1, 1, {1, 1, 1, 1, 1});
  AddPool(7, 3, 3, {1, 3, 8, 9, 7});  // 343 elements in a window: a 4-byte index
  AddMaxPool({.kernel = 3, .stride = 2, .ceil_mode = true}, {2, 16, 4, 6, 8});
  AddRoundedUpAverages({.kernel = 3, .stride = 2}, {2, 16, 4, 6, 8});
  AddRoundedUpAverages({.kernel = {2, 4, 3}, .stride = {3, 5, 2}, .padding = {1, 2, 0}},
                       {2, 5, 5, 9, 6});
  AddDilated({.kernel = 3, .stride = 2, .padding = 1, .dilation = 2}, {2, 8, 6, 9, 8});
  AddDilated(
      {.kernel = {2, 3, 2}, .stride = {1, 3, 2}, .padding = {0, 2, 1}, .dilation = {3, 2, 1}},
      {2, 3, 5, 7, 6});
}

void CaseList::AddRandomVolume() {
  const int64_t groups = dice_.Between(0, 2) == 0 ? dice_.Between(2, 4) : 1;
  const Convolution c = {.out_channels = groups * dice_.Between(1, 5),
                         .kernel = ExtentOfVolume(1, 3),
                         .stride = ExtentOfVolume(1, 2),
                         .padding = ExtentOfVolume(0, 1),
                         .dilation = dice_.Coin() ? ExtentOfVolume(1, 2) : Extents(1, 1, 1),
                         .groups = groups,
                         .bias = dice_.Coin()};
  const Window window = {.kernel = c.kernel, .dilation = c.dilation};
  std::vector<int64_t> sizes, halves;
  for (int i = 0; i < kMaxSpatialAxes; ++i) {
    sizes.push_back(window.Reach(i) + dice_.Between(0, 3));
    halves.push_back(dice_.Between(0, window.Reach(i) / 2));
  }
  const Shape shape = SpatialShape(dice_.Between(1, 3), groups * dice_.Between(1, 5), sizes);
  AddConvolution(c, shape);
  AddDilated({.kernel = c.kernel,
              .stride = c.stride,
              .padding = Extents::Of(halves),
              .dilation = c.dilation},
             shape);
  for (int64_t& size : sizes) ++size;
  AddTransposed({.out_channels = c.out_channels,
                 .kernel = ExtentOfVolume(2, 3),
                 .stride = c.stride,
                 .padding = c.padding,
                 .bias = c.bias},
                SpatialShape(shape.n(), shape.c(), sizes));
}

}  // namespace neap::testing

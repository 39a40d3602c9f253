// Cases of tensors with other numbers of spatial axes than images have: sequences {N, C, T} and
// volumes {N, C, D, H, W}.
#include "absl/strings/str_cat.h"
#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/channel_shuffle.h"
#include "neap/layers/channel_slice.h"
#include "neap/layers/channel_split.h"
#include "neap/layers/crop.h"
#include "neap/layers/dropout.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/join.h"
#include "neap/layers/multiply.h"
#include "neap/layers/pooling.h"
#include "neap/layers/prelu.h"
#include "neap/layers/scale_shift.h"
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
  Add("prelu", Prelu{.slopes = c}, {shape});
  Add("scale_shift", ScaleShift{.scale = -0.7F, .shift = 0.3F}, {shape});
  Add("dropout", Dropout{0.3F}, {shape});
  Add("batch_norm", BatchNorm{}, {shape});
  AddFusedNorms(shape);
  AddAveragedNorms(shape);
  AddSyncNorms(2, shape);
  Add("add", neap::Add{}, {shape, shape});
  Add("multiply", Multiply{}, {shape, shape});
  const std::vector<int64_t> ones(shape.spatial().size(), 1);
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
  const Shape shape = {2, 4, 4, 5, 7};  // windows along at most one of the outer and inner axes
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
}

}  // namespace neap::testing

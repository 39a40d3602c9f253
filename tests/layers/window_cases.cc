// Cases of layers that slide a window over images, and of those that change an image's size.
#include "absl/strings/str_cat.h"
#include "neap/core/step/specify.h"
#include "neap/layers/channel_shuffle.h"
#include "neap/layers/channel_slice.h"
#include "neap/layers/channel_split.h"
#include "neap/layers/convolution.h"
#include "neap/layers/crop.h"
#include "neap/layers/fusion/fused_convolution.h"
#include "neap/layers/fusion/fused_relu.h"
#include "neap/layers/fusion/norm_pass.h"
#include "neap/layers/fusion/residual_convolution.h"
#include "neap/layers/pooling.h"
#include "neap/layers/transposed_convolution.h"
#include "neap/layers/zero_pad.h"
#include "tests/layers/case_list.h"

namespace neap::testing {

namespace {

template <typename Pool>
std::string Dilated(const Pool& pool) {
  return pool.dilation.AllAre(1) ? "" : " dilation " + Text(pool.dilation);
}

}  // namespace

void CaseList::AddConvolution(const Convolution& c, const Shape& shape) {
  const std::string name =
      absl::StrCat("convolution ", Text(c.kernel), " to ", c.out_channels, " stride ",
                   Text(c.stride), " padding ", Text(c.padding), " dilation ", Text(c.dilation),
                   " groups ", c.groups, c.bias ? " bias" : "");
  Add(name, c, {shape});
  Add(name + ", relu", FusedConvolution{c}, {shape});
}

void CaseList::AddResidualConvolution(int64_t out_channels, const Shape& shape) {
  for (const bool bias : {true, false}) {
    const TensorSpec x = {.shape = shape, .layout = Layout::kChannelsLast};
    const TensorSpec y = WithShape(x, SpatialShape(shape.n(), out_channels, shape.spatial()));
    cases_.push_back({absl::StrCat("convolution to ", out_channels, bias ? " bias" : "",
                                   ", add on ", x.ToString()),
                      ResidualConvolution{out_channels, bias},
                      {x, y}});
  }
}

void CaseList::ResidualConvolutions() {
  AddResidualConvolution(1, {1, 1, 1, 1});
  AddResidualConvolution(16, {2, 32, 8, 8});
  AddResidualConvolution(7, {3, 5, 9, 4});
  AddResidualConvolution(40, {2, 24, 33});
  AddResidualConvolution(6, {2, 4, 3, 5, 2});
}

void CaseList::AddMaxPool(const MaxPool& pool, const Shape& shape) {
  const std::string window =
      absl::StrCat(Text(pool.kernel), " stride ", Text(pool.stride), " padding ",
                   Text(pool.padding), pool.ceil_mode ? " rounded up" : "", Dilated(pool));
  Add("max_pool " + window, pool, {shape});
  if (CanPoolRelu(pool, shape.spatial_axes())) {
    Add("relu, max_pool " + window, FusedRelu{.pool = pool}, {shape});
    Add("bias, relu, max_pool " + window, FusedRelu{.bias = true, .pool = pool}, {shape});
    Add("batch_norm, relu, max_pool " + window, NormPass{.activation = Relu{}, .sink = pool},
        {shape});
  }
}

void CaseList::AddPool(Extents kernel, Extents stride, Extents padding, const Shape& shape) {
  const std::string window =
      absl::StrCat(Text(kernel), " stride ", Text(stride), " padding ", Text(padding));
  AddMaxPool({kernel, stride, padding}, shape);
  Add("average_pool " + window, AveragePool{kernel, stride, padding}, {shape});
  if (padding.AllAre(0)) return;
  Add("average_pool without padding " + window, AveragePool{kernel, stride, padding, false},
      {shape});
}

void CaseList::AddRandomConvolution() {
  const int64_t groups = dice_.Between(0, 2) == 0 ? dice_.Between(2, 4) : 1;
  Convolution c = {.out_channels = groups * dice_.Between(1, 9),
                   .kernel = Extent(1, 5),
                   .stride = Extent(1, 3),
                   .padding = Extent(0, 2),
                   .dilation = dice_.Between(0, 3) == 0 ? Extent(1, 2) : Extents(1),
                   .groups = groups,
                   .bias = dice_.Coin()};
  const int64_t batch = dice_.Between(1, 4);
  const int64_t channels = groups * dice_.Between(1, 9);
  const Extents least = {(c.kernel.h() - 1) * c.dilation.h() + 1,
                         (c.kernel.w() - 1) * c.dilation.w() + 1};
  AddConvolution(c, {batch, channels, dice_.Between(least.h(), least.h() + 8),
                     dice_.Between(least.w(), least.w() + 8)});
}

void CaseList::AddRandomDepthwise() {
  const int64_t side = 2 * dice_.Between(1, 3) + 1;
  const int64_t channels = dice_.Between(2, 5) * (dice_.Coin() ? 1 : 8);
  const Convolution c = {.out_channels = channels,
                         .kernel = side,
                         .stride = dice_.Between(1, 2),
                         .padding = Extent(0, side - 1),
                         .groups = channels,
                         .bias = dice_.Coin()};
  AddConvolution(c, {dice_.Between(1, 4), channels, dice_.Between(side, side + 8),
                     dice_.Between(side, side + 8)});
}

void CaseList::Convolutions() {
  AddConvolution({.out_channels = 8, .kernel = 3, .padding = 1}, {2, 3, 7, 6});
  AddConvolution({.out_channels = 16, .kernel = 3, .padding = 1, .bias = false}, {2, 16, 8, 8});
  AddConvolution({.out_channels = 64, .kernel = 1, .bias = false}, {2, 32, 7, 7});
  AddConvolution({.out_channels = 32, .kernel = 1, .stride = 2, .bias = false}, {2, 16, 8, 8});
  AddConvolution({.out_channels = 16, .kernel = 7, .stride = 2, .padding = 3}, {2, 3, 18, 18});
  AddConvolution({.out_channels = 16, .kernel = 11, .stride = 4, .padding = 2}, {1, 3, 31, 31});
  AddConvolution({.out_channels = 5, .kernel = 2, .stride = 3}, {2, 4, 9, 7});  // stride > kernel
  AddConvolution({.out_channels = 5, .kernel = 1, .stride = {3, 2}}, {3, 2, 7, 7});
  // Odd numbers of channels of 210 pixels, which an engine of oneDNN sums wrongly in bf16.
  AddConvolution({.out_channels = 3, .kernel = 1}, {2, 4, 30, 7});
  AddConvolution({.out_channels = 6, .kernel = 1}, {2, 3, 30, 7});
  AddConvolution({.out_channels = 6, .kernel = 3}, {1, 5, 3, 3});  // one position
  AddConvolution({.out_channels = 6, .kernel = 1}, {1, 5, 1, 1});  // 1x1 image
  AddConvolution({.out_channels = 6, .kernel = 3, .padding = 1}, {1, 5, 1, 1});
  AddConvolution({.out_channels = 1, .kernel = {1, 3}, .padding = {0, 1}}, {1, 1, 4, 5});
  AddConvolution({.out_channels = 8, .kernel = 3, .padding = 1, .groups = 8}, {2, 8, 6, 6});
  AddConvolution({.out_channels = 16, .kernel = 3, .padding = 1, .groups = 4}, {2, 8, 6, 5});
  AddConvolution({.out_channels = 4, .kernel = 3, .padding = 2, .dilation = 2}, {2, 3, 8, 9});
  AddConvolution({.out_channels = 4, .kernel = 3, .padding = 3, .dilation = 3, .groups = 2},
                 {1, 6, 9, 9});
  AddConvolution(
      {.out_channels = 12, .kernel = 2, .stride = {2, 3}, .padding = {0, 1}, .groups = 3},
      {2, 12, 2, 2});
  AddConvolution({.out_channels = 8, .kernel = 5, .stride = 2, .padding = 2, .groups = 8},
                 {2, 8, 9, 8});
  AddConvolution({.out_channels = 130, .kernel = 5, .padding = 2, .groups = 130, .bias = false},
                 {1, 130, 7, 7});  // blocks of different numbers of channels (NHWC)
  AddConvolution({.out_channels = 67, .kernel = 3, .padding = 1, .groups = 67, .bias = false},
                 {1, 67, 6, 6});
  AddConvolution({.out_channels = 530, .kernel = 3, .padding = 1, .groups = 530, .bias = false},
                 {2, 530, 1, 140});  // several tiles for a thread (NCHW)
  AddConvolution({.out_channels = 96, .kernel = 7, .padding = 3, .groups = 96}, {2, 96, 14, 9});
  for (int i = 0; i < 2 * kRandomCasesPerLayer; ++i) AddRandomConvolution();
  for (int i = 0; i < kRandomCasesPerLayer; ++i) AddRandomDepthwise();
}

void CaseList::AddTransposed(const TransposedConvolution& t, const Shape& shape) {
  Add(absl::StrCat("transposed_convolution ", Text(t.kernel), " to ", t.out_channels, " stride ",
                   Text(t.stride), " padding ", Text(t.padding), t.bias ? " bias" : ""),
      t, {shape});
}

void CaseList::Upsampling() {
  AddTransposed({.out_channels = 4, .kernel = 2, .stride = 2}, {2, 8, 5, 4});
  AddTransposed({.out_channels = 3, .kernel = 4, .stride = 2, .padding = 1}, {2, 5, 4, 6});
  AddTransposed({.out_channels = 21, .kernel = 16, .stride = 8, .bias = false}, {1, 21, 3, 2});
  AddTransposed({.out_channels = 5, .kernel = 1}, {2, 3, 4, 4});
  AddTransposed({.out_channels = 2, .kernel = 2, .stride = 3}, {1, 3, 4, 3});  // gaps
  AddTransposed({.out_channels = 1, .kernel = {3, 1}, .stride = {2, 1}}, {1, 1, 1, 1});
  for (int i = 0; i < kRandomCasesPerLayer; ++i) {
    const TransposedConvolution t = {.out_channels = dice_.Between(1, 9),
                                     .kernel = Extent(2, 5),
                                     .stride = Extent(1, 3),
                                     .padding = Extent(0, 1),
                                     .bias = dice_.Coin()};
    const Shape s = RandomShape();
    AddTransposed(t, {s.n(), s.c(), s.h() + 1, s.w() + 1});
    const Extents size = {dice_.Between(1, s.h()), dice_.Between(1, s.w())};
    const Extents offset = {dice_.Between(0, s.h() - size.h()), dice_.Between(0, s.w() - size.w())};
    Add(absl::StrCat("crop ", Text(size), " at ", Text(offset)), Crop{size, offset}, {s});
    const int64_t count = dice_.Between(1, s.c());
    const int64_t first = dice_.Between(0, s.c() - count);
    Add(absl::StrCat("channels ", first, " + ", count), ChannelSlice{first, count}, {s});
    if (s.c() > 1) {
      const std::vector<int64_t> parts = {std::min(count, s.c() - 1),
                                          s.c() - std::min(count, s.c() - 1)};
      Add(absl::StrCat("split after ", parts[0]), ChannelSplit{parts}, {s});
    }
    const int64_t groups = dice_.Between(1, 4);
    Add(absl::StrCat("shuffle of ", groups), ChannelShuffle{groups},
        {{s.n(), groups * s.c(), s.h(), s.w()}});
  }
}

void CaseList::Pools() {
  AddPool(2, 2, 0, {2, 3, 8, 8});
  AddPool(2, 2, 0, {2, 16, 8, 8});  // vectors in NHWC, whatever the type
  AddPool(2, 3, 0, {2, 8, 9, 8});
  AddPool(3, 2, 1, {2, 64, 24, 24});  // several blocks, whatever the type
  AddPool(3, 2, 1, {2, 16, 9, 8});
  AddPool(3, 2, 0, {2, 5, 13, 13});
  AddPool(2, 3, 0, {2, 3, 9, 8});  // stride > kernel
  AddPool(3, 1, 1, {1, 1, 1, 1});
  AddPool(1, 1, 0, {1, 4, 1, 1});
  AddPool({3, 2}, {1, 2}, {1, 0}, {3, 4, 5, 6});
  AddPool(17, 3, 8, {2, 3, 20, 19});  // 289 elements in a window: a 4-byte index
  AddMaxPool({.kernel = 3, .stride = 2, .ceil_mode = true}, {2, 16, 8, 12});
  AddMaxPool({.kernel = 3, .stride = 2, .ceil_mode = true}, {2, 64, 24, 24});
  AddMaxPool({.kernel = 3, .stride = 2, .ceil_mode = true}, {2, 8, 2, 2});
  AddMaxPool({.kernel = {2, 4}, .stride = {3, 5}, .padding = {1, 2}, .ceil_mode = true},
             {2, 5, 9, 13});
  AddMaxPool({.kernel = 17, .stride = 5, .ceil_mode = true}, {2, 3, 20, 19});
  for (int i = 0; i < kRandomCasesPerLayer; ++i) {
    const Extents kernel = Extent(1, 4);
    const Extents padding = {dice_.Between(0, kernel.h() / 2), dice_.Between(0, kernel.w() / 2)};
    Shape s = RandomShape();
    AddPool(kernel, Extent(1, 4), padding, {s.n(), s.c(), s.h() + kernel.h(), s.w() + kernel.w()});
  }
  for (const Shape& shape : {Shape{2, 5, 7, 6}, Shape{1, 1, 1, 1}, Shape{3, 32, 4, 4}}) {
    Add("global_average_pool", GlobalAveragePool{}, {shape});
  }
}

void CaseList::AddRoundedUpAverages(AveragePool pool, const Shape& shape) {
  pool.ceil_mode = true;
  for (const bool count_padding : {true, false}) {
    pool.count_padding = count_padding;
    Add(absl::StrCat("average_pool ", Text(pool.kernel), " stride ", Text(pool.stride), " padding ",
                     Text(pool.padding), count_padding ? "" : " not counted", " rounded up"),
        pool, {shape});
  }
}

void CaseList::RoundedUpAverages() {
  AddRoundedUpAverages({.kernel = 3, .stride = 2}, {2, 16, 8, 12});  // vectors, whatever the type
  AddRoundedUpAverages({.kernel = 3, .stride = 2, .padding = 1}, {2, 64, 24, 24});
  AddRoundedUpAverages({.kernel = 3, .stride = 2}, {2, 8, 2, 2});  // smaller than the window
  AddRoundedUpAverages({.kernel = 3, .stride = 2}, {2, 3, 7, 9});  // as without
  AddRoundedUpAverages({.kernel = {2, 4}, .stride = {3, 5}, .padding = {1, 2}}, {2, 5, 9, 13});
  AddRoundedUpAverages({.kernel = 17, .stride = 5, .padding = {8, 0}}, {2, 3, 20, 19});
  for (int i = 0; i < kRandomCasesPerLayer; ++i) {
    const Extents kernel = Extent(1, 4);
    const Extents padding = {dice_.Between(0, kernel.h() / 2), dice_.Between(0, kernel.w() / 2)};
    const Shape s = RandomShape();
    AddRoundedUpAverages({.kernel = kernel, .stride = Extent(1, 4), .padding = padding},
                         {s.n(), s.c(), s.h() + kernel.h(), s.w() + kernel.w()});
  }
}

void CaseList::AddDilated(const MaxPool& pool, const Shape& shape) {
  for (const bool ceil_mode : {false, true}) {
    MaxPool rounded = pool;
    rounded.ceil_mode = ceil_mode;
    AddMaxPool(rounded, shape);
    for (const bool count_padding : {true, false}) {
      if (pool.padding.AllAre(0) && !count_padding) continue;
      const AveragePool average = {pool.kernel,   pool.stride, pool.padding,
                                   count_padding, ceil_mode,   pool.dilation};
      Add("average_pool " + average.Parameters(), average, {shape});
    }
  }
}

void CaseList::DilatedPools() {
  AddDilated({.kernel = 3, .stride = 2, .padding = 1, .dilation = 2}, {2, 16, 9, 8});
  AddDilated({.kernel = 3, .stride = 1, .padding = 2, .dilation = 2}, {2, 64, 24, 24});
  AddDilated({.kernel = 2, .stride = 2, .dilation = 3}, {2, 8, 9, 8});  // gaps no window reads
  AddDilated({.kernel = {2, 4}, .stride = {3, 5}, .padding = {1, 2}, .dilation = {3, 2}},
             {2, 5, 9, 13});
  AddDilated({.kernel = {3, 1}, .stride = {1, 2}, .dilation = {2, 7}}, {3, 4, 6, 5});
  // The elements at both ends are in the padding.
  AddDilated({.kernel = 3, .stride = 1, .padding = 6, .dilation = 6}, {2, 8, 4, 5});
  AddDilated({.kernel = 17, .stride = 3, .padding = 4, .dilation = 2}, {1, 3, 30, 29});
  for (int i = 0; i < kRandomCasesPerLayer; ++i) {
    const Extents kernel = Extent(1, 4);
    const Extents dilation = Extent(1, 3);
    const Window window = {.kernel = kernel, .dilation = dilation};
    const Extents reach = {window.Reach(0), window.Reach(1)};
    const Extents padding = {dice_.Between(0, reach.h() / 2), dice_.Between(0, reach.w() / 2)};
    const Shape s = RandomShape();
    AddDilated({.kernel = kernel, .stride = Extent(1, 4), .padding = padding, .dilation = dilation},
               {s.n(), s.c(), s.h() + reach.h(), s.w() + reach.w()});
  }
}

void CaseList::ZeroPads() {
  const auto add = [&](const ZeroPad& layer, const Shape& shape) {
    Add("zero_pad " + layer.Parameters(), layer, {shape});
  };
  add({}, {2, 3, 4, 5});
  add({.bottom = 1, .right = 1}, {2, 16, 8, 8});  // vectors, whatever the type
  add({.top = 1, .left = 2, .bottom = 3, .right = 4}, {2, 3, 5, 4});
  add({.top = 40, .left = 30}, {2, 8, 1, 1});  // several blocks, whatever the type
  for (int i = 0; i < kRandomCasesPerLayer; ++i) {
    const Extents before = Extent(0, 3);
    const Extents after = Extent(0, 3);
    add({.top = before.h(), .left = before.w(), .bottom = after.h(), .right = after.w()},
        RandomShape());
  }
}

}  // namespace neap::testing

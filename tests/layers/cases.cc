#include "tests/layers/cases.h"

#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "neap/core/graph/source.h"
#include "neap/layers/activated_batch_norm.h"
#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/convolution.h"
#include "neap/layers/crop.h"
#include "neap/layers/dropout.h"
#include "neap/layers/folded_convolution.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/fused_batch_norm.h"
#include "neap/layers/fused_convolution.h"
#include "neap/layers/fused_relu.h"
#include "neap/layers/join.h"
#include "neap/layers/joined_batch_norms.h"
#include "neap/layers/lrn.h"
#include "neap/layers/multiply.h"
#include "neap/layers/pooling.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/layers/sync_batch_norm.h"
#include "neap/layers/target_loss.h"
#include "neap/layers/transposed_convolution.h"

namespace neap::testing {
namespace {

constexpr int kRandomCasesPerLayer = 12;

// Random numbers that, unlike the standard distributions, are the same on every platform.
class Dice {
 public:
  explicit Dice(uint32_t seed) : engine_(seed) {}
  int64_t Between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(engine_() % static_cast<uint32_t>(high - low + 1));
  }
  bool Coin() { return Between(0, 1) == 1; }

 private:
  std::mt19937 engine_;
};

std::string Text(Extent2d e) { return absl::StrCat(e.h, "x", e.w); }

class CaseList {
 public:
  explicit CaseList(uint32_t seed) : dice_(seed) {}
  std::vector<LayerCase> Take() { return std::move(cases_); }

  void Convolutions();
  void FoldedConvolutions();
  void JoinedNorms();
  void Upsampling();
  void Pools();
  void Elementwise();
  void Norms();
  void SyncNorms();
  void Dense();
  void Losses();
  void Joins();

 private:
  // Adds the case in both layouts.
  void Add(const std::string& name, const Layer& layer, const std::vector<Shape>& shapes) {
    for (Layout layout : {Layout::kNchw, Layout::kNhwc}) {
      LayerCase layer_case = {.name = name, .layer = layer};
      for (const Shape& shape : shapes) {
        layer_case.inputs.push_back({.shape = shape, .layout = layout});
      }
      absl::StrAppend(&layer_case.name, " on ", layer_case.inputs[0].ToString());
      cases_.push_back(std::move(layer_case));
    }
  }
  // Of images in NHWC only.
  void AddFolded(int64_t out_channels, const Shape& shape) {
    const TensorSpec x = {.shape = shape, .layout = Layout::kNhwc};
    const TensorSpec y = {.shape = {shape.n(), out_channels, shape.h(), shape.w()},
                          .layout = Layout::kNhwc};
    for (const bool adds : {false, true}) {
      for (const bool relu : {false, true}) {
        const std::string name =
            absl::StrCat("convolution to ", out_channels, ", batch_norm", adds ? ", add" : "",
                         relu ? ", relu" : "", " on ", x.ToString());
        std::vector<TensorSpec> inputs = {x};
        if (adds) inputs.push_back(y);
        const BatchNorm norm = {.epsilon = 1e-3F, .momentum = 0.3F};
        cases_.push_back({name, FoldedConvolution{out_channels, norm, adds, relu}, inputs});
      }
    }
  }
  void AddConvolution(const Convolution& c, const Shape& shape) {
    const std::string name =
        absl::StrCat("convolution ", Text(c.kernel), " to ", c.out_channels, " stride ",
                     Text(c.stride), " padding ", Text(c.padding), " dilation ", Text(c.dilation),
                     " groups ", c.groups, c.bias ? " bias" : "");
    Add(name, c, {shape});
    Add(name + ", relu", FusedConvolution{c}, {shape});
  }
  void AddMaxPool(const MaxPool& pool, const Shape& shape) {
    const std::string window =
        absl::StrCat(Text(pool.kernel), " stride ", Text(pool.stride), " padding ",
                     Text(pool.padding), pool.ceil_mode ? " rounded up" : "");
    Add("max_pool " + window, pool, {shape});
    if (CanPoolRelu(pool)) {
      Add("relu, max_pool " + window, FusedRelu{.pool = pool}, {shape});
      Add("bias, relu, max_pool " + window, FusedRelu{.bias = true, .pool = pool}, {shape});
      Add("batch_norm, relu, max_pool " + window, FusedBatchNorm{.relu = true, .pool = pool},
          {shape});
    }
  }
  void AddPool(Extent2d kernel, Extent2d stride, Extent2d padding, const Shape& shape) {
    const std::string window =
        absl::StrCat(Text(kernel), " stride ", Text(stride), " padding ", Text(padding));
    AddMaxPool({kernel, stride, padding}, shape);
    Add("average_pool " + window, AveragePool{kernel, stride, padding}, {shape});
    if (padding == Extent2d(0)) return;
    Add("average_pool without padding " + window, AveragePool{kernel, stride, padding, false},
        {shape});
  }
  void AddRandomConvolution();
  void AddRandomDepthwise();
  void AddTransposed(const TransposedConvolution& t, const Shape& shape);
  void AddFusedNorms(const Shape& shape) {
    Add("batch_norm, relu", FusedBatchNorm{.relu = true}, {shape});
    const BatchNorm norm = {.epsilon = 1e-3F, .momentum = 0.3F};
    Add("batch_norm, clip", ActivatedBatchNorm{norm, Clip{-0.7123F, 1.0591F}}, {shape});
    Add("batch_norm, hard_swish", ActivatedBatchNorm{norm, HardSwish{}}, {shape});
    Add("batch_norm, silu", ActivatedBatchNorm{norm, Silu{}}, {shape});
    Add("batch_norm, add", FusedBatchNorm{.adds = true}, {shape, shape});
    Add("batch_norm, add, relu", FusedBatchNorm{.adds = true, .relu = true}, {shape, shape});
    const BatchNorm other = {.epsilon = 1e-3F, .momentum = 0.3F};
    FusedBatchNorm joint = {.adds = true, .addend_norm = other};
    Add("batch_norm, add batch_norm", joint, {shape, shape});
    joint.relu = true;
    Add("batch_norm, add batch_norm, relu", joint, {shape, shape});
  }
  void AddAveragedNorms(const Shape& shape) {
    for (const bool relu : {false, true}) {
      FusedBatchNorm norm = {.relu = relu, .averages = true};
      const std::string end = absl::StrCat(relu ? ", relu" : "", ", global_average_pool");
      Add("batch_norm" + end, norm, {shape});
      norm.adds = true;
      Add("batch_norm, add" + end, norm, {shape, shape});
      norm.addend_norm = BatchNorm{.epsilon = 1e-3F, .momentum = 0.3F};
      Add("batch_norm, add batch_norm" + end, norm, {shape, shape});
    }
  }
  // Batch norm over ranks, as one of them runs it.
  void AddSyncNorms(int ranks, const Shape& shape) {
    Add(absl::StrCat("batch_norm_statistics, one of ", ranks),
        BatchNormStatistics{.rank = ranks / 2, .ranks = ranks}, {shape});
    const TensorSpec statistics = {.shape = {ranks, RowLength(shape.c())}};
    for (Layout layout : {Layout::kNchw, Layout::kNhwc}) {
      const TensorSpec x = {.shape = shape, .layout = layout};
      cases_.push_back(
          {.name = absl::StrCat("batch_norm_apply, one of ", ranks, " on ", x.ToString()),
           .layer = BatchNormApply{.norm = {.epsilon = 1e-3F, .momentum = 0.3F}},
           .inputs = {x, statistics}});
    }
  }
  // Of parts with these channels.
  void AddConcatenatedNorms(const Shape& image, const std::vector<int64_t>& channels) {
    std::vector<Shape> parts;
    for (int64_t c : channels) parts.push_back({image.n(), c, image.h(), image.w()});
    const std::string name =
        absl::StrCat("concat of ", absl::StrJoin(channels, "+"), ", batch_norm");
    Add(name, FusedBatchNorm{.concatenates = true}, parts);
    Add(name + ", relu", FusedBatchNorm{.relu = true, .concatenates = true}, parts);
  }
  // Of a part of these channels in each position, of which the second is not normalised.
  void AddJoinedNorms(const Shape& image, const std::vector<int64_t>& channels) {
    JoinedBatchNorms layer;
    std::vector<Shape> inputs;
    const auto add = [&](size_t position) {
      inputs.push_back({image.n(), channels[position], image.h(), image.w()});
    };
    for (size_t position = channels.size(); position-- > 0;) {
      if (position == 1) continue;
      layer.parts.push_back({.norm = {.epsilon = 1e-3F, .momentum = 0.3F},
                             .relu = position % 2 == 0,
                             .position = static_cast<int>(position)});
      add(position);
    }
    if (channels.size() > 1) add(1);
    Add(absl::StrCat("concat of batch_norms of ", absl::StrJoin(channels, "+")), layer, inputs);
  }
  void AddLoss(const Shape& logits, Layout layout, const SoftmaxCrossEntropy& layer);
  Extent2d Extent(int64_t low, int64_t high) {
    const int64_t h = dice_.Between(low, high);
    return {h, dice_.Between(low, high)};
  }
  Shape RandomShape() {
    const int64_t n = dice_.Between(1, 4);
    const int64_t c = dice_.Between(1, 20);
    const int64_t h = dice_.Between(1, 9);
    return {n, c, h, dice_.Between(1, 9)};
  }

  Dice dice_;
  std::vector<LayerCase> cases_;
};

void CaseList::AddRandomConvolution() {
  const int64_t groups = dice_.Between(0, 2) == 0 ? dice_.Between(2, 4) : 1;
  Convolution c = {.out_channels = groups * dice_.Between(1, 9),
                   .kernel = Extent(1, 5),
                   .stride = Extent(1, 3),
                   .padding = Extent(0, 2),
                   .dilation = dice_.Between(0, 3) == 0 ? Extent(1, 2) : Extent2d(1),
                   .groups = groups,
                   .bias = dice_.Coin()};
  const int64_t batch = dice_.Between(1, 4);
  const int64_t channels = groups * dice_.Between(1, 9);
  const Extent2d least = {(c.kernel.h - 1) * c.dilation.h + 1, (c.kernel.w - 1) * c.dilation.w + 1};
  AddConvolution(c, {batch, channels, dice_.Between(least.h, least.h + 8),
                     dice_.Between(least.w, least.w + 8)});
}

void CaseList::AddRandomDepthwise() {
  const int64_t side = dice_.Coin() ? 3 : 5;
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
  for (int i = 0; i < 2 * kRandomCasesPerLayer; ++i) AddRandomConvolution();
  for (int i = 0; i < kRandomCasesPerLayer; ++i) AddRandomDepthwise();
}

void CaseList::FoldedConvolutions() {
  AddFolded(2, {1, 1, 8, 8});
  AddFolded(5, {3, 2, 7, 9});
  AddFolded(16, {4, 3, 7, 7});
  AddFolded(32, {4, 8, 12, 12});   // vectors, whatever the type
  AddFolded(72, {8, 16, 16, 9});   // several tiles
  AddFolded(128, {4, 8, 12, 12});  // a mask by the product
}

void CaseList::JoinedNorms() {
  AddJoinedNorms({8, 1, 1, 1}, {4});
  AddJoinedNorms({2, 1, 3, 5}, {3, 2, 5, 1});
  AddJoinedNorms({2, 1, 4, 4}, {16, 8, 24});
  AddJoinedNorms({3, 1, 4, 2}, {12, 4, 8, 4});   // vectors that fit their parts in fp32 only
  AddJoinedNorms({8, 1, 12, 12}, {72, 16, 40});  // several blocks, whatever the type
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
    const Extent2d size = {dice_.Between(1, s.h()), dice_.Between(1, s.w())};
    const Extent2d offset = {dice_.Between(0, s.h() - size.h), dice_.Between(0, s.w() - size.w)};
    Add(absl::StrCat("crop ", Text(size), " at ", Text(offset)), Crop{size, offset}, {s});
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
    const Extent2d kernel = Extent(1, 4);
    const Extent2d padding = {dice_.Between(0, kernel.h / 2), dice_.Between(0, kernel.w / 2)};
    Shape s = RandomShape();
    AddPool(kernel, Extent(1, 4), padding, {s.n(), s.c(), s.h() + kernel.h, s.w() + kernel.w});
  }
  for (const Shape& shape : {Shape{2, 5, 7, 6}, Shape{1, 1, 1, 1}, Shape{3, 32, 4, 4}}) {
    Add("global_average_pool", GlobalAveragePool{}, {shape});
  }
}

void CaseList::Elementwise() {
  const auto add_all = [&](const Shape& shape) {
    Add("relu", Relu{}, {shape});
    Add("leaky_relu", LeakyRelu{0.2F}, {shape});
    Add("clip", Clip{-0.7123F, 1.0591F}, {shape});  // bounds without difference quotients' values
    Add("sigmoid", Sigmoid{}, {shape});
    Add("tanh", Tanh{}, {shape});
    Add("hard_sigmoid", HardSigmoid{}, {shape});
    Add("hard_swish", HardSwish{}, {shape});
    Add("silu", Silu{}, {shape});
    const float probability = static_cast<float>(dice_.Between(0, 9)) / 10.0F;
    Add(absl::StrCat("dropout ", probability), Dropout{probability}, {shape});
  };
  add_all({1, 1, 1, 1});
  add_all({2, 3, 5, 7});
  for (int i = 0; i < kRandomCasesPerLayer; ++i) add_all(RandomShape());
}

void CaseList::Norms() {
  Add("batch_norm", BatchNorm{}, {{1, 3, 1, 1}});  // variance 0
  Add("batch_norm", BatchNorm{}, {{8, 4, 1, 1}});
  Add("batch_norm", BatchNorm{.epsilon = 1e-3F, .momentum = 0.3F}, {{4, 33, 7, 5}});
  Add("batch_norm", BatchNorm{}, {{8, 72, 12, 12}});  // several blocks, whatever the type
  AddFusedNorms({8, 4, 1, 1});
  AddFusedNorms({4, 33, 7, 5});
  AddFusedNorms({3, 8, 6, 6});
  AddFusedNorms({8, 72, 12, 12});                     // several blocks, whatever the type
  Add("batch_norm", BatchNorm{}, {{2, 4100, 2, 2}});  // more channels than there are tickets
  AddAveragedNorms({8, 4, 1, 1});
  AddAveragedNorms({3, 24, 4, 6});
  AddAveragedNorms({2, 33, 7, 5});
  AddConcatenatedNorms({8, 1, 1, 1}, {4});
  AddConcatenatedNorms({2, 1, 3, 5}, {1, 2, 5});  // vectors of several parts in NHWC
  AddConcatenatedNorms({2, 1, 4, 4}, {16, 8, 24});
  AddConcatenatedNorms({3, 1, 4, 2}, {12, 4});  // vectors of one part in fp32, of two in 16 bits
  AddConcatenatedNorms({8, 1, 12, 12}, {32, 32, 8});  // several blocks, whatever the type
  AddConcatenatedNorms({2, 1, 2, 1}, std::vector<int64_t>(FusedBatchNorm::kMostParts, 1));
  for (const Shape& shape : {Shape{1, 1, 1, 1}, Shape{2, 3, 4, 4}, Shape{2, 96, 5, 5}}) {
    Add("lrn", LocalResponseNorm{.alpha = 0.5F}, {shape});
    Add("lrn 3 beta 0.6", LocalResponseNorm{.size = 3, .alpha = 2.0F, .beta = 0.6F, .k = 2.0F},
        {shape});
  }
  for (int i = 0; i < kRandomCasesPerLayer; ++i) {
    Shape shape = RandomShape();
    const Shape several = {shape.n() + 1, shape.c(), shape.h() + 1, shape.w()};
    Add("batch_norm", BatchNorm{}, {several});
    AddFusedNorms(several);
    if (i % 3 == 0) AddAveragedNorms(several);
    std::vector<int64_t> parts;
    for (int64_t count = dice_.Between(1, 5); count > 0; --count)
      parts.push_back(dice_.Between(1, 20));
    AddConcatenatedNorms(several, parts);
    const int64_t size = 2 * dice_.Between(0, 4) + 1;
    Add(absl::StrCat("lrn ", size), LocalResponseNorm{.size = size, .alpha = 1.0F}, {shape});
  }
}

void CaseList::SyncNorms() {
  AddSyncNorms(2, {1, 3, 1, 1});
  AddSyncNorms(1, {8, 4, 1, 1});
  AddSyncNorms(3, {4, 33, 7, 5});
  AddSyncNorms(2, {8, 72, 12, 12});  // several blocks, whatever the type
  AddSyncNorms(3, {2, 4100, 2, 2});  // more channels than there are tickets
  for (int i = 0; i < kRandomCasesPerLayer; ++i)
    AddSyncNorms(static_cast<int>(dice_.Between(1, 4)), RandomShape());
}

void CaseList::Dense() {
  const auto add_dense = [&](int64_t outputs, bool bias, const Shape& shape) {
    Add(absl::StrCat("fully_connected to ", outputs, bias ? " bias" : ""),
        FullyConnected{outputs, bias}, {shape});
  };
  add_dense(1, true, {1, 1, 1, 1});
  add_dense(10, true, {4, 64, 1, 1});
  add_dense(33, true, {3, 16, 6, 6});
  for (int i = 0; i < kRandomCasesPerLayer; ++i) {
    const int64_t outputs = dice_.Between(1, 40);
    const bool bias = dice_.Coin();
    add_dense(outputs, bias, RandomShape());
  }
}

void CaseList::AddLoss(const Shape& logits, Layout layout, const SoftmaxCrossEntropy& layer) {
  LayerCase layer_case = {
      .name = absl::StrCat("softmax_cross_entropy ", layer.Parameters(), " on ", logits.ToString()),
      .layer = layer,
      .inputs = {{.shape = logits, .layout = layout},
                 {.shape = LabelShape(logits), .dtype = DType::kInt32}}};
  cases_.push_back(std::move(layer_case));
}

void CaseList::Losses() {
  for (const Shape& shape : {Shape{1, 1, 1, 1}, Shape{5, 10, 1, 1}, Shape{3, 1000, 1, 1},
                             Shape{2, 21, 7, 5}, Shape{1, 2, 1, 3}, Shape{3, 4, 20, 20}}) {
    for (Layout layout : {Layout::kNchw, Layout::kNhwc}) {
      AddLoss(shape, layout, {});
      AddLoss(shape, layout, {.label_smoothing = 0.1F});
      AddLoss(shape, layout, {.label_smoothing = 0.1F, .auxiliary_weight = 0.3F});
      const std::vector<TensorSpec> inputs(2, {.shape = shape, .layout = layout});
      for (const Layer& loss : std::vector<Layer>{MeanSquaredError{}, BinaryCrossEntropy{},
                                                  MeanSquaredError{.auxiliary_weight = 3},
                                                  BinaryCrossEntropy{.auxiliary_weight = 0.3F}}) {
        const std::string type = absl::StrCat(std::string(loss.type()), " ", loss.Parameters());
        cases_.push_back({absl::StrCat(type, " on ", inputs[0].ToString()), loss, inputs});
      }
    }
  }
}

void CaseList::Joins() {
  const auto add_multiply = [&](const Shape& a) {
    const Shape per_channel = {a.n(), a.c(), 1, 1};
    Add("multiply per channel", Multiply{}, {a, per_channel});
    Add("multiply", Multiply{}, {a, a});
  };
  add_multiply({1, 1, 1, 1});
  add_multiply({2, 16, 8, 8});    // vectors, whatever the type
  add_multiply({2, 40, 24, 24});  // several blocks, whatever the type
  for (int i = 0; i < kRandomCasesPerLayer; ++i) {
    const Shape shape = RandomShape();
    const size_t count = static_cast<size_t>(dice_.Between(2, 4));
    Add(absl::StrCat("add of ", count), neap::Add{}, std::vector<Shape>(count, shape));
    add_multiply(shape);
    std::vector<Shape> parts;
    for (size_t k = 0; k < count; ++k) {
      parts.push_back({shape.n(), dice_.Between(1, 8), shape.h(), shape.w()});
    }
    Add(absl::StrCat("concat of ", count), Concat{}, parts);
  }
  Add("concat of 1", Concat{}, {{2, 3, 4, 4}});
}

}  // namespace

LayerCase WithDType(LayerCase layer_case, DType dtype) {
  const bool has_targets = layer_case.layer.As<MeanSquaredError>() != nullptr ||
                           layer_case.layer.As<BinaryCrossEntropy>() != nullptr;
  for (size_t i = 0; i < layer_case.inputs.size(); ++i) {
    TensorSpec& input = layer_case.inputs[i];
    const bool is_images = input.shape.rank() == 4 && input.dtype != DType::kInt32;
    if (is_images && !(has_targets && i == 1)) input.dtype = dtype;
  }
  absl::StrAppend(&layer_case.name, " in ", std::string(Name(dtype)));
  return layer_case;
}

std::vector<LayerCase> AllLayerCases(uint32_t seed) {
  CaseList list(seed);
  list.Convolutions();
  list.Upsampling();
  list.Pools();
  list.Elementwise();
  list.Norms();
  list.Dense();
  list.Losses();
  list.Joins();
  list.FoldedConvolutions();
  list.JoinedNorms();
  list.SyncNorms();
  return list.Take();
}

}  // namespace neap::testing

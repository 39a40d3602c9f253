// Cases of norms, and of what batch norms are fused with.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/fusion/activated_group_norm.h"
#include "neap/layers/fusion/concat_batch_norms.h"
#include "neap/layers/fusion/folded_convolution.h"
#include "neap/layers/fusion/norm_pass.h"
#include "neap/layers/fusion/sync_batch_norm.h"
#include "neap/layers/lrn.h"
#include "neap/layers/norm/group_norm.h"
#include "neap/layers/norm/layer_norm.h"
#include "neap/layers/norm/softmax.h"
#include "tests/layers/case_list.h"

namespace neap::testing {

void CaseList::AddFolded(int64_t out_channels, const Shape& shape) {
  const TensorSpec x = {.shape = shape, .layout = Layout::kChannelsLast};
  const TensorSpec y = {.shape = {shape.n(), out_channels, shape.h(), shape.w()},
                        .layout = Layout::kChannelsLast};
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

void CaseList::AddFusedNorms(const Shape& shape) {
  Add("batch_norm, relu", NormPass{.activation = Relu{}}, {shape});
  const BatchNorm norm = {.epsilon = 1e-3F, .momentum = 0.3F};
  Add("batch_norm, clip", NormPass{.norm = norm, .activation = Clip{-0.7123F, 1.0591F}}, {shape});
  Add("batch_norm, hard_swish", NormPass{.norm = norm, .activation = HardSwish{}}, {shape});
  Add("batch_norm, silu", NormPass{.norm = norm, .activation = Silu{}}, {shape});
  Add("batch_norm, add", NormPass{.addend = NormPass::Raw{}}, {shape, shape});
  Add("batch_norm, add, relu", NormPass{.addend = NormPass::Raw{}, .activation = Relu{}},
      {shape, shape});
  NormPass two = {.addend = norm};
  Add("batch_norm, add batch_norm", two, {shape, shape});
  two.activation = Relu{};
  Add("batch_norm, add batch_norm, relu", two, {shape, shape});
}

void CaseList::AddAveragedNorms(const Shape& shape) {
  for (const bool relu : {false, true}) {
    NormPass norm = {.sink = GlobalAveragePool{}};
    if (relu) norm.activation = Relu{};
    const std::string end = absl::StrCat(relu ? ", relu" : "", ", global_average_pool");
    Add("batch_norm" + end, norm, {shape});
    norm.addend = NormPass::Raw{};
    Add("batch_norm, add" + end, norm, {shape, shape});
    norm.addend = BatchNorm{.epsilon = 1e-3F, .momentum = 0.3F};
    Add("batch_norm, add batch_norm" + end, norm, {shape, shape});
  }
}

void CaseList::AddSyncNorms(int ranks, const Shape& shape) {
  Add(absl::StrCat("batch_norm_statistics, one of ", ranks),
      BatchNormStatistics{.rank = ranks / 2, .ranks = ranks}, {shape});
  const TensorSpec statistics = {.shape = {ranks, RowLength(shape.c())}};
  for (Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
    const TensorSpec x = {.shape = shape, .layout = layout};
    cases_.push_back(
        {.name = absl::StrCat("batch_norm_apply, one of ", ranks, " on ", x.ToString()),
         .layer = BatchNormApply{.norm = {.epsilon = 1e-3F, .momentum = 0.3F}},
         .inputs = {x, statistics}});
  }
}

void CaseList::AddActivatedGroupNorms(const Shape& shape) {
  constexpr float kEpsilon = 1e-3F;
  const int64_t c = shape.c();
  const GroupNorm group = {.groups = c % 2 == 0 ? 2 : 1, .epsilon = kEpsilon};
  const InstanceNorm instance = {.epsilon = kEpsilon};
  const auto add = [&](const ActivatedGroupNorm& layer) {
    Add(absl::StrCat("activated_group_norm with ", layer.Parameters()), layer, {shape});
  };
  add({.norm = group, .activation = Silu{}});
  add({.norm = group, .activation = Gelu{}});
  add({.norm = GroupNorm{.groups = c, .epsilon = kEpsilon, .bias = false}, .activation = Relu{}});
  add({.norm = instance, .activation = LeakyRelu{}});
  const InstanceNorm affine = {.epsilon = kEpsilon, .affine = true};
  add({.norm = affine, .activation = LeakyRelu{}, .absorbs_bias = true});
  add({.norm = affine, .absorbs_bias = true});
}

void CaseList::AddSoftmaxes(const Shape& shape) {
  for (int64_t axis = 1; axis < shape.rank(); ++axis) {
    for (const bool logarithm : {false, true}) {
      const Softmax layer = {.axis = axis, .logarithm = logarithm};
      Add("softmax " + layer.Parameters(), layer, {shape});
    }
  }
}

void CaseList::Softmaxes() {
  for (const Shape& shape :
       {Shape{1, 1, 1, 1}, Shape{3, 1000, 1, 1}, Shape{2, 3, 257, 65}, Shape{2, 70, 3, 4},
        Shape{2, 3, 7}, Shape{2, 5, 300}, Shape{2, 3, 4, 5, 6}})
    AddSoftmaxes(shape);
  for (int i = 0; i < kRandomCasesPerLayer; ++i) AddSoftmaxes(RandomShape());
}

void CaseList::AddImageNorms(const Shape& shape) {
  // Sets of few values may have a small variance, by which rounding grows.
  constexpr float kEpsilon = 1e-3F;
  const int64_t c = shape.c(), pairs = c % 2 == 0 ? c / 2 : c;
  Add("group_norm", GroupNorm{.groups = 1, .epsilon = kEpsilon}, {shape});
  Add(absl::StrCat("group_norm in ", pairs, " without parameters"),
      GroupNorm{.groups = pairs, .epsilon = kEpsilon, .affine = false}, {shape});
  Add(absl::StrCat("group_norm in ", c), GroupNorm{.groups = c, .epsilon = kEpsilon}, {shape});
  Add("instance_norm", InstanceNorm{.epsilon = kEpsilon}, {shape});
  Add("instance_norm with parameters", InstanceNorm{.epsilon = kEpsilon, .affine = true}, {shape});
  Add("group_norm without a bias", GroupNorm{.epsilon = kEpsilon, .bias = false}, {shape});
  AddActivatedGroupNorms(shape);
  Add("layer_norm", LayerNorm{.epsilon = kEpsilon}, {shape});
  Add("layer_norm without a bias", LayerNorm{.epsilon = kEpsilon, .bias = false}, {shape});
  Add("layer_norm without parameters", LayerNorm{.epsilon = kEpsilon, .affine = false}, {shape});
}

void CaseList::AddConcatenatedNorms(const Shape& image, const std::vector<int64_t>& channels) {
  std::vector<Shape> parts;
  for (int64_t c : channels) parts.push_back(SpatialShape(image.n(), c, image.spatial()));
  const std::string name = absl::StrCat("concat of ", absl::StrJoin(channels, "+"), ", batch_norm");
  Add(name, NormPass{.concatenates = true}, parts);
  Add(name + ", relu", NormPass{.activation = Relu{}, .concatenates = true}, parts);
}

void CaseList::AddConcatNorms(const Shape& image, const std::vector<int64_t>& channels) {
  ConcatBatchNorms layer;
  std::vector<Shape> inputs;
  const auto add = [&](size_t position) {
    inputs.push_back(SpatialShape(image.n(), channels[position], image.spatial()));
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

void CaseList::FoldedConvolutions() {
  AddFolded(2, {1, 1, 8, 8});
  AddFolded(5, {3, 2, 7, 9});
  AddFolded(16, {4, 3, 7, 7});
  AddFolded(32, {4, 8, 12, 12});   // vectors, whatever the type
  AddFolded(72, {8, 16, 16, 9});   // several tiles
  AddFolded(128, {4, 8, 12, 12});  // a mask by the product
}

void CaseList::ConcatNorms() {
  AddConcatNorms({8, 1, 1, 1}, {4});
  AddConcatNorms({2, 1, 3, 5}, {3, 2, 5, 1});
  AddConcatNorms({2, 1, 4, 4}, {16, 8, 24});
  AddConcatNorms({3, 1, 4, 2}, {12, 4, 8, 4});   // vectors that fit their parts in fp32 only
  AddConcatNorms({8, 1, 12, 12}, {72, 16, 40});  // several blocks, whatever the type
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
  AddConcatenatedNorms({2, 1, 2, 1}, std::vector<int64_t>(NormPass::kMaxParts, 1));
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

void CaseList::ImageNorms() {
  AddImageNorms({1, 3, 1, 1});  // variance 0
  AddImageNorms({8, 4, 1, 1});
  AddImageNorms({4, 33, 7, 5});
  AddImageNorms({3, 8, 6, 6});
  AddImageNorms({2, 72, 12, 12});  // several blocks, whatever the type
  // More positions than one block normalises.
  const InstanceNorm affine = {.epsilon = 1e-3F, .affine = true};
  Add("instance_norm of several blocks", affine, {{2, 24, 36, 30}});
  Add("activated_group_norm of several blocks",
      ActivatedGroupNorm{.norm = affine, .activation = LeakyRelu{}}, {{2, 24, 36, 30}});
  Add("group_norm", GroupNorm{.groups = 4}, {{2, 8, 72, 130}});  // planes in several parts
  Add("group_norm", GroupNorm{.groups = 2050}, {{2, 4100, 2, 2}});
  Add("group_norm", GroupNorm{.groups = 4}, {{260, 8, 3, 2}});  // sums over many images
  Add("layer_norm", LayerNorm{}, {{3, 70, 7, 7}});              // narrow tiles of positions
  Add("layer_norm", LayerNorm{}, {{2, 5, 32, 33}});             // vectors of positions
  Add("layer_norm", LayerNorm{}, {{2, 1024, 2, 1}});            // more channels than a warp holds
  Add("layer_norm", LayerNorm{}, {{1, 1100, 3, 1}});            // a block for each position
  Add("layer_norm", LayerNorm{}, {{2, 96, 20, 17}});            // several rows of a thread
  Add("layer_norm", LayerNorm{}, {{3, 3072, 1}});               // rows of all warps of a block
  Add("layer_norm", LayerNorm{}, {{1, 16384, 1, 2}});           // more channels than a block holds
  for (int i = 0; i < kRandomCasesPerLayer / 3; ++i) AddImageNorms(RandomShape());
}

}  // namespace neap::testing

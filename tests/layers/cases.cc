#include "tests/layers/cases.h"

#include "absl/strings/str_cat.h"
#include "neap/core/graph/source.h"
#include "neap/layers/activation.h"
#include "neap/layers/dropout.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/fusion/biased_gelu.h"
#include "neap/layers/fusion/residual_tail.h"
#include "neap/layers/join.h"
#include "neap/layers/loss/dice_loss.h"
#include "neap/layers/multiply.h"
#include "neap/layers/prelu.h"
#include "neap/layers/scale_shift.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/layers/target_loss.h"
#include "tests/layers/case_list.h"

namespace neap::testing {

void CaseList::Add(const std::string& name, const Layer& layer, const std::vector<Shape>& shapes) {
  for (Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
    LayerCase layer_case = {.name = name, .layer = layer};
    for (const Shape& shape : shapes) {
      layer_case.inputs.push_back({.shape = shape, .layout = layout});
    }
    absl::StrAppend(&layer_case.name, " on ", layer_case.inputs[0].ToString());
    cases_.push_back(std::move(layer_case));
  }
}

void CaseList::Elementwise() {
  const auto add_prelu = [&](const Shape& shape) {
    Add("prelu", Prelu{}, {shape});
    Add("prelu per channel", Prelu{.slopes = shape.c()}, {shape});
  };
  const auto add_all = [&](const Shape& shape) {
    Add("relu", Relu{}, {shape});
    Add("leaky_relu", LeakyRelu{0.2F}, {shape});
    Add("clip", Clip{-0.7123F, 1.0591F}, {shape});  // bounds without difference quotients' values
    Add("sigmoid", Sigmoid{}, {shape});
    Add("tanh", Tanh{}, {shape});
    Add("hard_sigmoid", HardSigmoid{}, {shape});
    Add("hard_swish", HardSwish{}, {shape});
    Add("silu", Silu{}, {shape});
    Add("gelu", Gelu{}, {shape});
    Add("gelu by tanh", Gelu{Gelu::Approximation::kTanh}, {shape});
    Add("bias, gelu", BiasedGelu{}, {shape});
    Add("bias, gelu by tanh", BiasedGelu{{Gelu::Approximation::kTanh}}, {shape});
    Add("elu", Elu{0.6F}, {shape});
    Add("softplus", Softplus{.beta = 1.7F, .threshold = 1.2841F}, {shape});
    Add("mish", Mish{}, {shape});
    add_prelu(shape);
    Add("scale_shift", ScaleShift{.scale = -0.7F, .shift = 0.3F}, {shape});
    AddLearnedScales(shape);
    const float probability = static_cast<float>(dice_.Between(0, 9)) / 10.0F;
    Add(absl::StrCat("dropout ", probability), Dropout{probability}, {shape});
    AddDroppedUnits(probability, shape);
  };
  add_all({1, 1, 1, 1});
  add_all({2, 3, 5, 7});
  for (int i = 0; i < kRandomCasesPerLayer; ++i) add_all(RandomShape());
  add_prelu({2, 16, 8, 8});    // vectors, whatever the type
  add_prelu({2, 40, 24, 24});  // several blocks, whatever the type
  Add("bias, gelu", BiasedGelu{}, {{2, 40, 24, 24}});
  AddLearnedScales({2, 16, 8, 8});
  AddLearnedScales({2, 40, 24, 24});
  AddDroppedUnits(0.4F, {3, 16, 8, 8});
  AddDroppedUnits(0.4F, {3, 40, 24, 24});
}

void CaseList::AddLearnedScales(const Shape& shape) {
  for (const ScaleShift& layer :
       {ScaleShift{.shift = 0.3F, .learns_scale = true},
        ScaleShift{.scale = -0.7F, .learns_shift = true},
        ScaleShift{.scale = 1e-6F, .learns_scale = true, .learns_shift = true}})
    Add("scale_shift " + layer.Parameters(), layer, {shape});
}

void CaseList::AddDroppedUnits(float probability, const Shape& shape) {
  Add(absl::StrCat("dropout of channels ", probability), Dropout{probability, true}, {shape});
  Add(absl::StrCat("stochastic_depth ", probability), StochasticDepth{probability}, {shape});
}

void CaseList::AddResidualTails(const Shape& shape) {
  constexpr ScaleShift kLearned = {.learns_scale = true}, kFixed = {.scale = -0.7F, .shift = 0.3F};
  constexpr StochasticDepth kDrop = {.rate = 0.4F};
  for (const ResidualTail& tail : {ResidualTail{.scale = kLearned, .drop = kDrop},
                                   ResidualTail{.scale = kFixed, .drop = kDrop},
                                   ResidualTail{.scale = kLearned}, ResidualTail{.drop = kDrop}})
    Add("residual_tail " + tail.Parameters(), tail, {shape, shape});
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

void CaseList::AddLoss(const Shape& logits, Layout layout, const Layer& layer, int64_t finer) {
  Shape::Dims labels = LabelShape(logits).dims();
  for (size_t axis = 1; axis < labels.size() && finer > 0; ++axis) labels[axis] *= finer++;
  LayerCase layer_case = {.name = absl::StrCat(std::string(layer.type()), " ", layer.Parameters(),
                                               " on ", logits.ToString()),
                          .layer = layer,
                          .inputs = {{.shape = logits, .layout = layout},
                                     {.shape = Shape(std::move(labels)), .dtype = DType::kInt32}}};
  cases_.push_back(std::move(layer_case));
}

void CaseList::AddLosses(const Shape& shape) {
  std::vector<float> weights;
  for (int64_t c = 0; c < shape.c(); ++c) weights.push_back(static_cast<float>(c % 5) / 4);
  const bool fit = shape.c() <= SoftmaxCrossEntropy::kMaxClassWeights;
  for (Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
    AddLoss(shape, layout, SoftmaxCrossEntropy{});
    AddLoss(shape, layout, SoftmaxCrossEntropy{.label_smoothing = 0.1F});
    AddLoss(shape, layout, SoftmaxCrossEntropy{.label_smoothing = 0.1F, .weight = 0.3F});
    if (fit) {
      AddLoss(shape, layout, SoftmaxCrossEntropy{.class_weights = weights});
      AddLoss(shape, layout, SoftmaxCrossEntropy{.label_smoothing = 0.1F, .class_weights = weights},
              2);
    }
    AddLoss(shape, layout, DiceLoss{});
    AddLoss(shape, layout, DiceLoss{.batch = true, .cross_entropy = 0.7F}, 2);
    if (shape.c() > 1) {
      AddLoss(shape, layout, DiceLoss{.background = false, .smooth = 1, .weight = 0.3F});
      AddLoss(shape, layout, NnUNetLoss());
    }
    const std::vector<TensorSpec> inputs(2, {.shape = shape, .layout = layout});
    for (const Layer& loss : std::vector<Layer>{
             MeanSquaredError{}, BinaryCrossEntropy{}, MeanSquaredError{.weight = 3},
             BinaryCrossEntropy{.weight = 0.3F}, BinaryCrossEntropy{.positive_weight = 2.5F},
             FocalLoss{}, FocalLoss{.gamma = 0},
             FocalLoss{.alpha = 0.6F, .gamma = 1.5F, .weight = 0.3F}}) {
      const std::string type = absl::StrCat(std::string(loss.type()), " ", loss.Parameters());
      cases_.push_back({absl::StrCat(type, " on ", inputs[0].ToString()), loss, inputs});
    }
  }
}

void CaseList::Losses() {
  for (const Shape& shape :
       {Shape{1, 1, 1, 1}, Shape{5, 10, 1, 1}, Shape{3, 1000, 1, 1}, Shape{2, 21, 7, 5},
        Shape{1, 2, 1, 3}, Shape{3, 4, 20, 20}, Shape{1, 40, 16, 20}})
    AddLosses(shape);
}

void CaseList::Joins() {
  const auto add_multiply = [&](const Shape& a) {
    const Shape per_channel = {a.n(), a.c(), 1, 1};
    Add("add per channel", neap::Add{}, {a, per_channel});
    Add("multiply per channel", Multiply{}, {a, per_channel});
    Add("multiply", Multiply{}, {a, a});
  };
  add_multiply({1, 1, 1, 1});
  add_multiply({2, 16, 8, 8});    // vectors, whatever the type
  add_multiply({2, 40, 24, 24});  // several blocks, whatever the type
  AddResidualTails({1, 1, 1, 1});
  AddResidualTails({5, 16, 8, 8});
  AddResidualTails({3, 40, 24, 24});
  for (int i = 0; i < kRandomCasesPerLayer; ++i) {
    const Shape shape = RandomShape();
    const size_t count = static_cast<size_t>(dice_.Between(2, 4));
    Add(absl::StrCat("add of ", count), neap::Add{}, std::vector<Shape>(count, shape));
    add_multiply(shape);
    AddResidualTails(shape);
    std::vector<Shape> parts;
    for (size_t k = 0; k < count; ++k) {
      parts.push_back({shape.n(), dice_.Between(1, 8), shape.h(), shape.w()});
    }
    Add(absl::StrCat("concat of ", count), Concat{}, parts);
  }
  Add("concat of 1", Concat{}, {{2, 3, 4, 4}});
}

LayerCase WithDType(LayerCase layer_case, DType dtype) {
  const bool has_targets = layer_case.layer.As<MeanSquaredError>() != nullptr ||
                           layer_case.layer.As<BinaryCrossEntropy>() != nullptr ||
                           layer_case.layer.As<FocalLoss>() != nullptr;
  for (size_t i = 0; i < layer_case.inputs.size(); ++i) {
    TensorSpec& input = layer_case.inputs[i];
    const bool is_images = input.shape.spatial_axes() > 0 && input.dtype != DType::kInt32;
    if (is_images && !(has_targets && i == 1)) input.dtype = dtype;
  }
  layer_case.dtype = dtype;
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
  list.ResidualConvolutions();
  list.ConcatNorms();
  list.SyncNorms();
  list.RoundedUpAverages();
  list.ZeroPads();
  list.DilatedPools();
  list.Sequences();
  list.Volumes();
  list.Resizes();
  list.AdaptivePools();
  list.PixelShuffles();
  list.Reshapes();
  list.Permutes();
  list.Windows();
  list.Rolls();
  list.Tiles();
  list.ResizedSequences();
  list.ResizedVolumes();
  list.ImageNorms();
  list.Softmaxes();
  list.Attentions();
  list.Tokens();
  return list.Take();
}

}  // namespace neap::testing

// Compares the float64 reference's gradients with central differences of its forward steps.
#include "tests/layers/reference.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "absl/strings/str_cat.h"
#include "neap/layers/attention/attention.h"
#include "neap/layers/convolution.h"
#include "neap/layers/crop.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/loss/dice_loss.h"
#include "neap/layers/lrn.h"
#include "neap/layers/norm/group_norm.h"
#include "neap/layers/norm/layer_norm.h"
#include "neap/layers/pooling.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/layers/target_loss.h"
#include "neap/layers/tokens/linear_cross_entropy.h"
#include "neap/layers/transposed_convolution.h"
#include "neap/layers/zero_pad.h"
#include "tests/layers/conformance.h"
#include "tests/layers/reference_sync_batch_norm.h"

namespace neap::testing {
namespace {

using namespace operands;

// A ReLU's kink may lie within the first step, but hardly within the last, whose result has the
// largest rounding error.
constexpr double kStepSizes[] = {1e-6, 1e-7, 1e-8};
// |analytic - numeric| <= kTolerance * max(1, |numeric|) for one of the steps
constexpr double kTolerance = 1e-6;
constexpr size_t kSamplesPerTensor = 8;
constexpr int64_t kMaxElements = 1000;  // larger cases are slow and show no more

// The same number of values in the same order over [-2, 2). Their distances are large enough that a
// step of the difference quotient cannot change the maximum of a max pool, nor cross ReLU's kink at
// 0. They are not all the same: else the mean of a few values, which a norm moves to that kink,
// often is one of them.
std::vector<double> Spread(const std::vector<double>& values) {
  std::vector<size_t> by_value(values.size());
  std::iota(by_value.begin(), by_value.end(), size_t{0});
  std::stable_sort(by_value.begin(), by_value.end(),
                   [&](size_t a, size_t b) { return values[a] < values[b]; });
  const double places = static_cast<double>(values.size() + values.size() % 2);  // 0 between two
  std::vector<double> spread(values.size());
  for (size_t rank = 0; rank < values.size(); ++rank) {
    const double place = static_cast<double>(rank) + 0.5;
    spread[by_value[rank]] = 4 * (place + 0.2 * std::sin(place * place)) / places - 2;
  }
  return spread;
}

bool IsLoss(const Layer& layer) {
  return layer.As<SoftmaxCrossEntropy>() != nullptr || layer.As<MeanSquaredError>() != nullptr ||
         layer.As<BinaryCrossEntropy>() != nullptr || layer.As<FocalLoss>() != nullptr ||
         layer.As<DiceLoss>() != nullptr || layer.As<LinearCrossEntropy>() != nullptr;
}

// A layer with values for one iteration. The loss is sum(y_i * dy_i), or the layer's own if it has
// one, times its weight.
class GradientCheck {
 public:
  GradientCheck(const LayerCase& layer_case, uint32_t seed) : case_(layer_case) {
    spec_ = case_.layer.Specify(case_.Context()).value();
    values_ = RandomValues(case_, spec_, seed);
    for (size_t i = 0; i < case_.inputs.size(); ++i) {
      if (case_.inputs[i].dtype == DType::kInt32) continue;
      const Operand input = X(static_cast<int>(i));
      std::vector<double>& x = values_.at(input);
      x = AsInput(case_.layer, input, case_.inputs[i], Spread(x));
    }
    for (const StepSpec& step : spec_.steps) {
      for (auto& [operand, result] : ReferenceStep(Signature(step), values_)) {
        if (operand.slot != Slot::kState) values_[operand] = std::move(result);
      }
    }
  }

  // Describes the first difference; empty if there is none.
  std::string Check(Operand variable, Operand gradient) {
    const std::vector<double> analytic = values_.at(gradient);
    const size_t stride = std::max<size_t>(1, analytic.size() / kSamplesPerTensor);
    for (size_t i = 0; i < analytic.size(); i += stride) {
      const bool is_input = variable.slot == Slot::kInput;
      if (is_input && HasNoGradient(case_.layer, variable,
                                    case_.inputs[static_cast<size_t>(variable.index)], i))
        continue;
      const auto agrees = [&](double step) {
        const double numeric = Slope(variable, i, step);
        return std::abs(analytic[i] - numeric) <= kTolerance * std::max(1.0, std::abs(numeric));
      };
      if (std::any_of(std::begin(kStepSizes), std::end(kStepSizes), agrees)) continue;
      return absl::StrCat(case_.name, ": ", ToString(gradient), " element ", i, " is ", analytic[i],
                          ", the difference quotient ", Slope(variable, i, kStepSizes[0]));
    }
    return "";
  }
  const LayerSpec& spec() const { return spec_; }
  bool Has(Operand operand) const { return values_.contains(operand); }

 private:
  StepSignature Signature(const StepSpec& step) const {
    return SignatureOf(step, {.layer = case_.layer, .spec = spec_, .inputs = case_.inputs});
  }
  // The forward step that computes the loss.
  StepSignature Forward() const {
    if (case_.layer.As<LinearCrossEntropy>() == nullptr) return Signature(spec_.steps[0]);
    const LayerSpec spec = case_.layer.Specify(case_.Context(Mode::kInference)).value();
    return SignatureOf(
        spec.steps[0],
        {.layer = case_.layer, .spec = spec, .inputs = case_.inputs, .mode = Mode::kInference});
  }
  // The terms whose sum is the loss.
  std::vector<double> LossTerms() const {
    const Values results = ReferenceStep(Forward(), values_);
    if (IsLoss(case_.layer))
      return {static_cast<double>(spec_.loss_weight) * results.at(State(0))[0]};
    std::vector<double> terms;
    for (int output = 0; output < spec_.output_count(); ++output) {
      const std::vector<double>& y = results.at(Y(output));
      const std::vector<double>& dy = values_.at(Dy(output));
      for (size_t i = 0; i < y.size(); ++i) terms.push_back(y[i] * dy[i]);
    }
    return terms;
  }
  // Differences are taken term by term, because rounding in a sum of thousands of terms would be as
  // large as the effect of a step.
  double Slope(Operand variable, size_t i, double step) {
    double& value = values_.at(variable)[i];
    const double before = value;
    value = before + step;
    const std::vector<double> above = LossTerms();
    value = before - step;
    const std::vector<double> below = LossTerms();
    value = before;
    double difference = 0;
    for (size_t k = 0; k < above.size(); ++k) difference += above[k] - below[k];
    return difference / (2 * step);
  }

  const LayerCase& case_;
  LayerSpec spec_;
  Values values_;
};

void CheckGradients(const LayerCase& layer_case, uint32_t seed) {
  GradientCheck check(layer_case, seed);
  for (size_t i = 0; i < layer_case.inputs.size(); ++i) {
    if (IsLoss(layer_case.layer) && i == 1) continue;  // labels or targets
    if (layer_case.inputs[i].dtype == DType::kInt32) continue;
    const int k = static_cast<int>(i);
    const bool passes = check.spec().passes_linear_grad == k;
    const Operand passed = check.Has(Dz()) ? Dz() : Dy();
    const std::string wrong = check.Check(X(k), passes ? passed : Dx(k));
    CHECK_MESSAGE(wrong.empty(), wrong);
  }
  for (size_t i = 0; i < check.spec().params.size(); ++i) {
    const int k = static_cast<int>(i);
    const std::string wrong = check.Check(Param(k), ParamGrad(k));
    CHECK_MESSAGE(wrong.empty(), wrong);
  }
}

TEST_CASE("the reference's gradients agree with central differences") {
  const uint32_t seed = std::random_device{}();
  MESSAGE("seed ", seed);
  int checked = 0;
  for (const LayerCase& layer_case : AllLayerCases(seed)) {
    const bool variance_zero = layer_case.name == "batch_norm on 1x3x1x1 fp32 nchw" ||
                               layer_case.name == "batch_norm on 1x3x1x1 fp32 nhwc";
    if (layer_case.inputs[0].elements() > kMaxElements || variance_zero) continue;
    CheckGradients(layer_case, seed);
    ++checked;
  }
  CHECK(checked > 150);
}

TEST_CASE("running means begin at 0 and running variances at 1 in every layer that has them") {
  int variances = 0;
  for (const LayerCase& layer_case : AllLayerCases(/*seed=*/1)) {
    CAPTURE(layer_case.name);
    for (const Mode mode : {Mode::kTraining, Mode::kInference}) {
      const auto spec = layer_case.layer.Specify(layer_case.Context(mode));
      if (!spec.ok()) continue;  // a part of a batch norm over ranks, which is for training only
      for (const StateSpec& state : spec->states) {
        if (!state.accumulates) continue;
        const bool is_variance = state.name == "running_var";
        CHECK(state.init == Init{Init::Kind::kConstant, is_variance ? 1.0F : 0.0F});
        variances += is_variance ? 1 : 0;
      }
    }
  }
  CHECK(variances > 100);
}

// One forward step on hand-made numbers, because the other test compares the reference with itself.
std::vector<double> ForwardOf(const Layer& layer, const Shape& image, const Values& given) {
  const std::vector<TensorSpec> inputs = {{.shape = image}};
  const LayerSpec spec = layer.Specify({.inputs = inputs}).value();
  const StepSignature forward =
      SignatureOf(spec.steps[0], {.layer = layer, .spec = spec, .inputs = inputs});
  return ReferenceStep(forward, given).at(Y());
}

TEST_CASE("the reference gives results worked out by hand") {
  // 1 2 3      1 0      1+5+10  2+6+10       the kernel slides without being flipped
  // 4 5 6  *   0 1  =   4+8+10  5+9+10
  // 7 8 9     + 10
  CHECK(
      ForwardOf(Convolution{.out_channels = 1, .kernel = 2}, {1, 1, 3, 3},
                {{X(), {1, 2, 3, 4, 5, 6, 7, 8, 9}}, {Param(0), {1, 0, 0, 1}}, {Param(1), {10}}}) ==
      std::vector<double>{16, 18, 22, 24});
  // the kernel 1 2, scaled by 1 and by 2, over four columns, plus 10: 1*1 1*2 2*1 2*2
  CHECK(ForwardOf(TransposedConvolution{.out_channels = 1, .kernel = {1, 2}, .stride = 2},
                  {1, 1, 1, 2}, {{X(), {1, 2}}, {Param(0), {1, 2}}, {Param(1), {10}}}) ==
        std::vector<double>{11, 12, 12, 14});
  CHECK(ForwardOf(Crop{.size = {1, 2}, .offset = 1}, {1, 1, 2, 3}, {{X(), {1, 2, 3, 4, 5, 6}}}) ==
        std::vector<double>{5, 6});
  CHECK(ForwardOf(ZeroPad{.top = 1, .right = 2}, {1, 1, 1, 2}, {{X(), {1, 2}}}) ==
        std::vector<double>{0, 0, 0, 0, 1, 2, 0, 0});
  CHECK(ForwardOf(FullyConnected{.out_features = 2, .bias = false}, {1, 3, 1, 1},
                  {{X(), {1, 2, 3}}, {Param(0), {1, 1, 1, 0, 0, 2}}}) == std::vector<double>{6, 6});
  CHECK(ForwardOf(AveragePool{.kernel = 2, .stride = 2, .padding = 1}, {1, 1, 2, 2},
                  {{X(), {4, 8, 12, 16}}}) == std::vector<double>{1, 2, 3, 4});
  // |0 1 2 3 4 0|  : windows 0 1 2, 2 3 4 and, in ceil_mode, 4 0
  AveragePool rounded_up = {.kernel = {1, 3}, .stride = {1, 2}, .padding = {0, 1}};
  CHECK(ForwardOf(rounded_up, {1, 1, 1, 4}, {{X(), {1, 2, 3, 4}}}) == std::vector<double>{1, 3});
  rounded_up.ceil_mode = true;
  CHECK(ForwardOf(rounded_up, {1, 1, 1, 4}, {{X(), {1, 2, 3, 4}}}) == std::vector<double>{1, 3, 2});
  rounded_up.count_padding = false;
  CHECK(ForwardOf(rounded_up, {1, 1, 1, 4}, {{X(), {1, 2, 3, 4}}}) ==
        std::vector<double>{1.5, 3, 4});
  CHECK(ForwardOf(MaxPool{.kernel = 2, .stride = 2}, {1, 1, 2, 4},
                  {{X(), {1, -2, -5, -6, 0, 3, -9, -4}}}) == std::vector<double>{3, -4});
  // |0 1 2 3 4 0|  : windows 0 2 and 1 3 and 2 4 and 3 0 and, in ceil_mode with stride 2, 0 2, 2 4
  CHECK(ForwardOf(MaxPool{.kernel = {1, 2}, .stride = 1, .padding = {0, 1}, .dilation = {1, 2}},
                  {1, 1, 1, 4}, {{X(), {1, 2, 3, 4}}}) == std::vector<double>{2, 3, 4, 3});
  AveragePool dilated = {.kernel = {1, 2}, .stride = {1, 2}, .padding = {0, 1}};
  dilated.dilation = {1, 3};
  CHECK(ForwardOf(dilated, {1, 1, 1, 4}, {{X(), {1, 2, 3, 4}}}) == std::vector<double>{1.5, 1});
  dilated.count_padding = false;
  CHECK(ForwardOf(dilated, {1, 1, 1, 4}, {{X(), {1, 2, 3, 4}}}) == std::vector<double>{3, 2});
  // s = 1 + 3 / 3 * (sum of squares of neighbours): 3, 3, 2 for x = 1, 1, 0
  CHECK(ForwardOf(LocalResponseNorm{.size = 3, .alpha = 3, .beta = 1}, {1, 3, 1, 1},
                  {{X(), {1, 1, 0}}}) == std::vector<double>{1.0 / 3, 1.0 / 3, 0});
  // invstd = 1 / sqrt(1 + 3), for values of variance 1
  CHECK(
      ForwardOf(
          GroupNorm{.groups = 2, .epsilon = 3}, {1, 4, 1, 2},
          {{X(), {1, 3, 1, 3, 0, 0, 2, 2}}, {Param(0), {1, 1, 2, 4}}, {Param(1), {0, 1, 0, 0}}}) ==
      std::vector<double>{-0.5, 0.5, 0.5, 1.5, -1, -1, 2, 2});
  CHECK(ForwardOf(InstanceNorm{.epsilon = 3}, {1, 2, 1, 2}, {{X(), {1, 3, 5, 7}}}) ==
        std::vector<double>{-0.5, 0.5, -0.5, 0.5});
  CHECK(ForwardOf(LayerNorm{.epsilon = 3, .affine = false}, {1, 2, 1, 2}, {{X(), {1, 5, 3, 7}}}) ==
        std::vector<double>{-0.5, -0.5, 0.5, 0.5});
  // Queries of 0 weigh all keys that they read alike.
  CHECK(ForwardOf(Attention{}, {1, 3, 2}, {{X(), {0, 0, 1, 5, 2, 4}}}) ==
        std::vector<double>{3, 3});
  CHECK(ForwardOf(Attention{.causal = true}, {1, 3, 2}, {{X(), {0, 0, 1, 5, 2, 4}}}) ==
        std::vector<double>{2, 3});
}

}  // namespace
}  // namespace neap::testing

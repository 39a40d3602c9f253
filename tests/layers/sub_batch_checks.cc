#include "tests/layers/sub_batch_checks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "neap/core/program/sub_batches.h"
#include "neap/core/step/signature_text.h"
#include "neap/layers/attention/attention.h"
#include "neap/layers/dropout.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/fusion/residual_tail.h"
#include "neap/layers/loss/dice_loss.h"
#include "neap/layers/norm/group_norm.h"
#include "neap/layers/norm/layer_norm.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/layers/target_loss.h"

namespace neap::testing {
namespace {

using namespace operands;

Values Run(Backend& backend, const DeviceAccess& access, const StepSignature& signature,
           const Values& given) {
  const absl::StatusOr<Values> results = RunStep(backend, access, signature, given);
  REQUIRE_MESSAGE(results.ok(), results.status().ToString());
  return *results;
}

// The values of a part, which begins with image `first`, of an operand with these specs.
std::vector<double> PartOf(const std::vector<double>& values, const TensorSpec& whole,
                           const TensorSpec& part, int64_t first) {
  if (whole == part) return values;
  const auto begin = values.begin() + first * (part.elements() / part.shape.n());
  return {begin, begin + part.elements()};
}

// Whether later parts add to what the first one writes.
bool IsSum(Operand operand) {
  return operand.slot == Slot::kState || operand.slot == Slot::kParamGrad;
}

// The results of the step, run for each of the parts of its batch that DivideBatch() makes.
Values RunInParts(Backend& backend, const DeviceAccess& access, const StepSignature& whole,
                  const Values& given, int64_t asked) {
  Values results;
  const PartSizes sizes = DivideBatch(BatchOf(whole), asked);
  for (int64_t index = 0; index < sizes.count; ++index) {
    const auto [_, count, first, images] = sizes.Part(index);
    StepSignature part = WithBatch(whole, images);
    part.part = {.first = first, .of = BatchOf(whole)};
    Values values;
    for (size_t i = 0; i < part.operands.size(); ++i) {
      OperandSpec& operand = part.operands[i];
      if (operand.operand.slot == Slot::kSaved)
        operand.tensor = WithFirstExtent(operand.tensor, images);
      if (operand.access == Access::kRead) {
        values[operand.operand] =
            PartOf(given.at(operand.operand), whole.operands[i].tensor, operand.tensor, first);
      }
      if (!IsSum(operand.operand) || index == 0) continue;
      operand.access = Access::kAccumulate;
      values[operand.operand] = results.at(operand.operand);
    }
    for (const auto& [operand, made] : Run(backend, access, part, values)) {
      std::vector<double>& result = results[operand];
      if (IsSum(operand)) result.clear();
      result.insert(result.end(), made.begin(), made.end());
    }
  }
  return results;
}

std::vector<double> Waves(int64_t elements) {
  std::vector<double> values;
  for (int64_t i = 0; i < elements; ++i) values.push_back(std::sin(static_cast<double>(3 * i)));
  return values;
}

// `labels` are those of the layer, or targets.
void CheckLoss(Backend& backend, const DeviceAccess& access, const Layer& loss, const Shape& logits,
               const TensorSpec& labels) {
  CAPTURE(loss.type());
  CAPTURE(logits.ToString());
  const std::vector<TensorSpec> inputs = {{.shape = logits}, labels};
  const LayerSpec spec = loss.Specify({.inputs = inputs}).value();
  const SignatureOptions options = {.layer = loss, .spec = spec, .inputs = inputs};
  std::vector<double> classes;
  for (int64_t i = 0; i < labels.elements(); ++i) classes.push_back(static_cast<double>(i % 3));
  StepSignature forward = SignatureOf(spec.steps[0], options);
  for (OperandSpec& operand : forward.operands) {  // as the first loss of an iteration
    if (operand.operand == State(0)) operand.access = Access::kWrite;
  }
  const Values given = {{X(0), Waves(logits.elements())}, {X(1), classes}};
  const Values whole = Run(backend, access, forward, given);
  const StepSignature backward = SignatureOf(spec.steps[1], options);
  Values gradient = {{Y(), whole.at(Y())}, {X(1), classes}};
  if (whole.contains(Saved(0))) gradient[Saved(0)] = whole.at(Saved(0));
  for (const int64_t count : {2, 3, 5}) {  // 3 + 2, 2 + 2 + 1
    CAPTURE(count);
    const Values parts = RunInParts(backend, access, forward, given, count);
    CHECK(parts.at(Y()) == whole.at(Y()));
    CHECK(parts.at(State(0))[0] == doctest::Approx(whole.at(State(0))[0]));
    CHECK(parts.at(State(0))[1] == whole.at(State(0))[1]);
    CHECK(RunInParts(backend, access, backward, gradient, count).at(Dx()) ==
          Run(backend, access, backward, gradient).at(Dx()));
  }
}

// Of a layer of so many inputs like x that does not couple images.
void CheckImages(Backend& backend, const DeviceAccess& access, const Layer& layer,
                 const TensorSpec& x, int input_count = 1) {
  CAPTURE(layer.type());
  CAPTURE(x.ToString());
  const std::vector<TensorSpec> inputs(static_cast<size_t>(input_count), x);
  const LayerSpec spec = layer.Specify({.inputs = inputs}).value();
  const SignatureOptions options = {.layer = layer, .spec = spec, .inputs = inputs};
  Values given = {{Iteration(), {0, 3, 17}}};
  for (int i = 0; i < input_count; ++i) given[X(i)] = Rounded(x, Waves(x.elements()));
  for (size_t i = 0; i < spec.params.size(); ++i)
    given[Param(static_cast<int>(i))] = Waves(spec.params[i].tensor.elements());
  const StepSignature forward = SignatureOf(spec.steps[0], options);
  const StepSignature backward = SignatureOf(spec.steps[1], options);
  for (const auto& [operand, made] : Run(backend, access, forward, given)) given[operand] = made;
  given[Dy()] = Rounded(spec.output, Waves(spec.output.elements()));
  std::reverse(given[Dy()].begin(), given[Dy()].end());
  for (const StepSignature& step : {forward, backward}) {
    const Values whole = Run(backend, access, step, given);
    for (const int64_t count : {2, 3, 5}) {
      CAPTURE(count);
      for (const auto& [operand, made] : RunInParts(backend, access, step, given, count)) {
        if (!IsSum(operand)) CHECK(made == whole.at(operand));
        for (size_t i = 0; IsSum(operand) && i < made.size(); ++i)
          CHECK(made[i] == doctest::Approx(whole.at(operand)[i]).epsilon(1e-4));
      }
    }
  }
}

void CheckDropout(Backend& backend, const DeviceAccess& access, const Layer& layer,
                  const TensorSpec& x) {
  CAPTURE(layer.type());
  CAPTURE(layer.Parameters());
  CAPTURE(x.ToString());
  const LayerSpec spec = layer.Specify({.inputs = {x}}).value();
  const SignatureOptions options = {.layer = layer, .spec = spec, .inputs = {x}};
  for (const StepSpec& step : spec.steps) {
    const bool forward = step.phase == Phase::kForward;
    const StepSignature signature = SignatureOf(step, options);
    const Values given = {{forward ? X() : Dy(), Waves(x.elements())}, {Iteration(), {0, 3, 17}}};
    const Values whole = Run(backend, access, signature, given);
    for (const int64_t count : {2, 3, 5}) {
      CAPTURE(count);
      CHECK(RunInParts(backend, access, signature, given, count) == whole);
    }
  }
}

}  // namespace

void CheckNormsInSubBatches(Backend& backend, const DeviceAccess& access, DType dtype) {
  for (const Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
    for (const Shape& shape : {Shape{5, 6, 3, 5}, Shape{5, 16, 12, 12}, Shape{5, 4, 4700}}) {
      for (const Layer& norm :
           {Layer(GroupNorm{.groups = 2}), Layer(InstanceNorm{}), Layer(LayerNorm{})})
        CheckImages(backend, access, norm, {shape, dtype, layout});
    }
  }
}

void CheckAttentionInSubBatches(Backend& backend, const DeviceAccess& access, DType dtype) {
  const Attention attention = {.heads = 2, .kv_heads = 1, .learned_bias = true, .rotary_dims = 2};
  for (const Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
    for (const Shape& shape : {Shape{5, 12, 7}, Shape{5, 32, 40}})
      CheckImages(backend, access, attention, {shape, dtype, layout});
    const WindowBias bias = {.window = {2, 3}, .size = {4, 6}, .shift = 1};
    CheckImages(backend, access, Attention{.heads = 2, .axes = 1, .window_bias = bias},
                {{5, 12, 4, 6}, dtype, layout});
  }
}

void CheckResidualTailInSubBatches(Backend& backend, const DeviceAccess& access, DType dtype) {
  const ResidualTail tail = {.scale = ScaleShift{.learns_scale = true},
                             .drop = StochasticDepth{.rate = 0.5F}};
  for (const Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
    for (const Shape& shape : {Shape{5, 5, 3, 2}, Shape{5, 32, 40}})
      CheckImages(backend, access, tail, {shape, dtype, layout}, 2);
  }
}

void CheckDropoutInSubBatches(Backend& backend, const DeviceAccess& access, DType dtype) {
  // Parts of 5 elements or channels begin inside a block of random numbers.
  for (const Shape& shape : {Shape{5, 5, 1, 1}, Shape{5, 8, 3, 3}, Shape{5, 5, 3, 2}}) {
    for (const Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
      for (const Layer& layer : {Layer(Dropout{}), Layer(Dropout{.per_channel = true}),
                                 Layer(StochasticDepth{.rate = 0.5F})})
        CheckDropout(backend, access, layer, {shape, dtype, layout});
    }
  }
}

void CheckFullyConnectedInSubBatches(Backend& backend, const DeviceAccess& access, DType dtype) {
  const std::vector<TensorSpec> inputs = {{.shape = {5, 3, 2, 2}, .dtype = dtype}};
  const FullyConnected layer = {.out_features = 5};
  const LayerSpec spec = layer.Specify({.inputs = inputs}).value();
  const StepSignature signature =
      SignatureOf(spec.steps[1], {.layer = layer, .spec = spec, .inputs = inputs});
  REQUIRE(signature.phase == Phase::kBackwardParams);
  const Values given = {{X(), Rounded(inputs[0], Waves(5 * 12))},
                        {Dy(), Rounded(spec.output, Waves(5 * 5))}};
  const Values whole = Run(backend, access, signature, given);
  for (const int64_t count : {2, 3, 5}) {
    const Values parts = RunInParts(backend, access, signature, given, count);
    for (const auto& [operand, gradient] : whole) {
      for (size_t i = 0; i < gradient.size(); ++i)
        CHECK(parts.at(operand)[i] == doctest::Approx(gradient[i]).epsilon(1e-4));
    }
  }
}

void CheckLossInSubBatches(Backend& backend, const DeviceAccess& access) {
  for (const SoftmaxCrossEntropy& softmax :
       {SoftmaxCrossEntropy{}, SoftmaxCrossEntropy{.weight = 0.3F}}) {
    CheckLoss(backend, access, softmax, {5, 3, 1, 1}, {.shape = {5}, .dtype = DType::kInt32});
    CheckLoss(backend, access, softmax, {5, 3, 5, 7}, {.shape = {5, 5, 7}, .dtype = DType::kInt32});
    CheckLoss(backend, access, softmax, {5, 3, 2, 4, 3},
              {.shape = {5, 2, 4, 3}, .dtype = DType::kInt32});
  }
  for (const DiceLoss& dice : {DiceLoss{}, NnUNetLoss()}) {
    CheckLoss(backend, access, dice, {5, 3, 5, 7}, {.shape = {5, 5, 7}, .dtype = DType::kInt32});
    CheckLoss(backend, access, dice, {5, 3, 2, 4, 3},
              {.shape = {5, 4, 4, 9}, .dtype = DType::kInt32});
  }
  for (const Shape& shape : {Shape{5, 3, 1, 1}, Shape{5, 3, 5, 7}}) {
    CheckLoss(backend, access, MeanSquaredError{}, shape, {.shape = shape});
    CheckLoss(backend, access, BinaryCrossEntropy{.weight = 3}, shape, {.shape = shape});
  }
}

}  // namespace neap::testing

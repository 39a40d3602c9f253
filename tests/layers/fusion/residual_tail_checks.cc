#include "tests/layers/fusion/residual_tail_checks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "neap/layers/fusion/residual_tail.h"
#include "neap/layers/join.h"
#include "tests/layers/conformance.h"

namespace neap::testing {
namespace {

using namespace operands;

struct StepsOfTail {
  Backend& backend;
  const DeviceAccess& access;
  TensorSpec x;

  Values Run(const Layer& layer, size_t inputs, size_t step, const Values& given,
             Mode mode = Mode::kTraining, bool adds = false) const {
    const std::vector<TensorSpec> specs(inputs, x);
    const LayerSpec spec = layer.Specify({.inputs = specs, .mode = mode}).value();
    StepSignature signature = SignatureOf(
        spec.steps[step], {.layer = layer, .spec = spec, .inputs = specs, .mode = mode});
    for (OperandSpec& operand : signature.operands) {
      if (adds && operand.operand.slot == Slot::kParamGrad) operand.access = Access::kAccumulate;
    }
    absl::StatusOr<Values> results = RunStep(backend, access, signature, given);
    REQUIRE_MESSAGE(results.ok(), results.status().ToString());
    return *std::move(results);
  }
};

// Zeros are equal if their signs are.
void CheckBitsOfTail(const Values& fused, const Values& apart) {
  for (const auto& result : fused) {
    const std::vector<double>& want = apart.at(result.first);
    const std::string difference = Difference(result.second, want, 0);
    CHECK_MESSAGE(difference.empty(), ToString(result.first), ": ", difference);
    const bool same_signs =
        std::equal(want.begin(), want.end(), result.second.begin(), result.second.end(),
                   [](double a, double b) { return std::signbit(a) == std::signbit(b); });
    CHECK_MESSAGE(same_signs, ToString(result.first), " has zeros of other signs");
  }
}

// Random values, of which some are -0, such as a GELU of large negative numbers.
Values ValuesOfTail(const LayerCase& layer_case, const LayerSpec& spec) {
  constexpr size_t kEvery = 7;
  Values values = RandomValues(layer_case, spec, 7);
  for (const Operand& operand : {X(0), X(1), Dy()}) {
    std::vector<double>& of_operand = values.at(operand);
    for (size_t i = 0; i < of_operand.size(); i += kEvery) of_operand[i] = -0.0;
  }
  return values;
}

// The layers one after another.
Values ForwardApart(const StepsOfTail& steps, const ResidualTail& tail, Values given, Mode mode) {
  if (tail.scale.has_value()) given[X(0)] = steps.Run(*tail.scale, 1, 0, given, mode).at(Y());
  if (tail.drop.has_value()) given[X(0)] = steps.Run(*tail.drop, 1, 0, given, mode).at(Y());
  return steps.Run(Add{}, 2, 0, given, mode);
}
Values BackwardApart(const StepsOfTail& steps, const ResidualTail& tail, Values given, bool adds) {
  if (tail.drop.has_value()) given[Dy()] = steps.Run(*tail.drop, 1, 1, given).at(Dx());
  if (!tail.scale.has_value()) return {{Dx(0), given.at(Dy())}};
  return steps.Run(*tail.scale, 1, 1, given, Mode::kTraining, adds);
}

void CheckTailOf(const StepsOfTail& steps, const ResidualTail& tail) {
  CAPTURE(tail.Parameters());
  const std::vector<TensorSpec> inputs(2, steps.x);
  const LayerSpec spec = Layer(tail).Specify({.inputs = inputs}).value();
  const Values given = ValuesOfTail({.name = "", .layer = tail, .inputs = inputs}, spec);
  for (const Mode mode : {Mode::kTraining, Mode::kInference})
    CheckBitsOfTail(steps.Run(tail, 2, 0, given, mode), ForwardApart(steps, tail, given, mode));
  for (const bool adds : {false, true}) {
    CAPTURE(adds);
    CheckBitsOfTail(steps.Run(tail, 2, 1, given, Mode::kTraining, adds),
                    BackwardApart(steps, tail, given, adds));
  }
}

}  // namespace

void CheckResidualTail(Backend& backend, const DeviceAccess& access, DType dtype) {
  const std::optional<ScaleShift> scales[] = {std::nullopt, ScaleShift{.learns_scale = true},
                                              ScaleShift{.scale = -0.7F, .shift = 0.3F},
                                              ScaleShift{.shift = 0.3F, .learns_scale = true}};
  for (const Shape& shape : {Shape{6, 16, 8, 8}, Shape{5, 5, 9, 7}, Shape{4, 40, 333}}) {
    for (const Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
      const TensorSpec x = {shape, dtype, layout};
      CAPTURE(x.ToString());
      for (const auto& scale : scales) {
        CheckTailOf({backend, access, x}, {.scale = scale, .drop = StochasticDepth{0.4F}});
        if (scale.has_value()) CheckTailOf({backend, access, x}, {.scale = scale});
      }
    }
  }
}

}  // namespace neap::testing

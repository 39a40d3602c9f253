#include "tests/layers/fusion/biased_gelu_checks.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <string>

#include "neap/layers/fusion/biased_gelu.h"
#include "neap/layers/scale_shift.h"
#include "tests/layers/conformance.h"

namespace neap::testing {
namespace {

using namespace operands;

struct StepsOfBiased {
  Backend& backend;
  const DeviceAccess& access;
  TensorSpec x;

  Values Run(const Layer& layer, size_t step, const Values& given, bool adds = false) const {
    const LayerSpec spec = layer.Specify({.inputs = {x}}).value();
    StepSignature signature =
        SignatureOf(spec.steps[step], {.layer = layer, .spec = spec, .inputs = {x}});
    for (OperandSpec& operand : signature.operands) {
      if (adds && operand.operand.slot == Slot::kParamGrad) operand.access = Access::kAccumulate;
    }
    absl::StatusOr<Values> results = RunStep(backend, access, signature, given);
    REQUIRE_MESSAGE(results.ok(), results.status().ToString());
    return *std::move(results);
  }
};

void CheckBitsOf(const Values& fused, const Values& apart) {
  for (const auto& result : fused) {
    const std::string difference = Difference(result.second, apart.at(result.first), 0);
    CHECK_MESSAGE(difference.empty(), ToString(result.first), ": ", difference);
  }
}

// A ScaleShift by 1 adds the bias, and its gradient is the bias's.
void CheckGelu(const StepsOfBiased& steps, const Gelu& gelu) {
  const Layer fused = BiasedGelu{gelu}, bias = ScaleShift{.learns_shift = true};
  const LayerSpec spec = fused.Specify({.inputs = {steps.x}}).value();
  const Values given = RandomValues({.name = "", .layer = fused, .inputs = {steps.x}}, spec, 7);
  Values apart = {{X(), steps.Run(bias, 0, given).at(Y())}, {Dy(), given.at(Dy())}};
  CheckBitsOf(steps.Run(fused, 0, given), steps.Run(gelu, 0, apart));
  Values before = given;
  before[Dy()] = steps.Run(gelu, 1, apart).at(Dx());
  for (const bool adds : {false, true}) {
    CAPTURE(adds);
    CheckBitsOf(steps.Run(fused, 1, given, adds), steps.Run(bias, 1, before, adds));
  }
}

}  // namespace

void CheckBiasedGelu(Backend& backend, const DeviceAccess& access, DType dtype) {
  for (const Shape& shape : {Shape{2, 16, 8, 8}, Shape{3, 5, 9, 7}, Shape{4, 40, 33}}) {
    for (const Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
      const TensorSpec x = {shape, dtype, layout};
      CAPTURE(x.ToString());
      for (const Gelu& gelu : {Gelu{}, Gelu{Gelu::Approximation::kTanh}})
        CheckGelu({backend, access, x}, gelu);
    }
  }
}

}  // namespace neap::testing

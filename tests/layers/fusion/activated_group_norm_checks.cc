#include "tests/layers/fusion/activated_group_norm_checks.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "neap/layers/fusion/activated_group_norm.h"
#include "tests/layers/conformance.h"

namespace neap::testing {
namespace {

using namespace operands;

// Runs steps of layers of x on one backend.
struct StepsOfX {
  Backend& backend;
  const DeviceAccess& access;
  TensorSpec x;

  Values Run(const Layer& layer, size_t step, const Values& given, Mode mode = Mode::kTraining,
             bool rerun = false, bool adds = false) const {
    const LayerSpec spec = layer.Specify({.inputs = {x}, .mode = mode}).value();
    StepSignature signature =
        SignatureOf(spec.steps[step],
                    {.layer = layer, .spec = spec, .inputs = {x}, .mode = mode, .rerun = rerun});
    for (OperandSpec& operand : signature.operands) {
      if (adds && operand.operand.slot == Slot::kParamGrad) operand.access = Access::kAccumulate;
    }
    absl::StatusOr<Values> results = RunStep(backend, access, signature, given);
    REQUIRE_MESSAGE(results.ok(), results.status().ToString());
    return *std::move(results);
  }
};

void CheckBits(const Values& fused, const Values& apart) {
  for (const auto& [operand, values] : fused) {
    const std::string name = ToString(operand),
                      difference = Difference(values, apart.at(operand), 0);
    CHECK_MESSAGE(difference.empty(), name, ": ", difference);
  }
}

void CheckFused(const StepsOfX& steps, const ActivatedGroupNorm& fused) {
  CAPTURE(fused.Parameters());
  const Layer norm = fused.norm_layer(), activation = *fused.activation_layer();
  const LayerSpec spec = Layer(fused).Specify({.inputs = {steps.x}}).value();
  Values given = RandomValues({.name = "", .layer = fused, .inputs = {steps.x}}, spec, 7);
  Values normalised;
  for (const Mode mode : {Mode::kInference, Mode::kTraining}) {
    Values apart = steps.Run(norm, 0, given, mode);
    normalised = {{X(), apart.at(Y())}};
    apart[Y()] = steps.Run(activation, 0, normalised, mode).at(Y());
    CheckBits(steps.Run(fused, 0, given, mode), apart);
    for (const auto& [operand, values] : apart) given[operand] = values;
  }
  const Values rerun = steps.Run(fused, 0, given, Mode::kTraining, /*rerun=*/true);
  CHECK(rerun.at(Y()) == given.at(Y()));

  normalised[Y()] = given.at(Y());
  normalised[Dy()] = given.at(Dy());
  Values before = given;
  before[Dy()] = steps.Run(activation, 1, normalised).at(Dx());
  for (const bool adds : {false, true}) {
    CheckBits(steps.Run(fused, 1, given, Mode::kTraining, /*rerun=*/false, adds),
              steps.Run(norm, 1, before, Mode::kTraining, /*rerun=*/false, adds));
  }
}

}  // namespace

void CheckActivatedGroupNorm(Backend& backend, const DeviceAccess& access, DType dtype) {
  const ActivatedGroupNorm::Norm norms[] = {
      GroupNorm{.groups = 2, .epsilon = 1e-3F}, GroupNorm{.groups = 4, .bias = false},
      InstanceNorm{.epsilon = 1e-3F}, InstanceNorm{.affine = true}};
  const ActivatedGroupNorm::Activation activations[] = {
      Relu{}, LeakyRelu{.negative_slope = 0.1F}, Silu{}, Gelu{}, Gelu{Gelu::Approximation::kTanh}};
  for (const Shape& shape : {Shape{2, 16, 8, 8}, Shape{3, 12, 7, 5}}) {
    for (const Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
      const TensorSpec x = {shape, dtype, layout};
      CAPTURE(x.ToString());
      for (const auto& norm : norms) {
        for (const auto& activation : activations)
          CheckFused({backend, access, x}, {.norm = norm, .activation = activation});
      }
    }
  }
}

}  // namespace neap::testing

#include "tests/layers/image_norm_checks.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "neap/layers/norm/group_norm.h"
#include "neap/layers/norm/layer_norm.h"
#include "tests/layers/conformance.h"
#include "tests/layers/reference.h"

namespace neap::testing {
namespace {

using namespace operands;

// The forward step of a norm of x, with random values.
struct NormStep {
  StepSignature signature;
  Values values;
};
NormStep ForwardOfNorm(const Layer& norm, const TensorSpec& x) {
  const LayerSpec spec = norm.Specify({.inputs = {x}}).value();
  const LayerCase norm_case = {.name = "forward", .layer = norm, .inputs = {x}};
  return {SignatureOf(spec.steps[0], {.layer = norm, .spec = spec, .inputs = {x}}),
          RandomValues(norm_case, spec, /*seed=*/3)};
}

// Calls visit(step) for each norm, with this epsilon, of images in both layouts.
template <typename Visit>
void ForEachNorm(float epsilon, const Visit& visit) {
  for (const Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
    for (const Layer& norm :
         {Layer(GroupNorm{.groups = 4, .epsilon = epsilon}),
          Layer(InstanceNorm{.epsilon = epsilon}), Layer(LayerNorm{.epsilon = epsilon})}) {
      CAPTURE(norm.type());
      CAPTURE(std::string(Name(layout)));
      visit(ForwardOfNorm(norm, {{2, 40, 12, 12}, DType::kFp32, layout}));
    }
  }
}

}  // namespace

void CheckImageNormsFarFromZero(Backend& backend, const DeviceAccess& access) {
  ForEachNorm(1e-12F, [&](NormStep step) {
    for (double& value : step.values[X()]) value = static_cast<float>(1000 + 0.01 * value);
    const Values want = ReferenceStep(step.signature, step.values);
    const Values got = RunStep(backend, access, step.signature, step.values).value();
    const std::string difference =
        Difference(got.at(Saved(1)), want.at(Saved(1)), 1e-3, /*least_scale=*/0);
    CHECK_MESSAGE(difference.empty(), difference);
  });
}

void CheckImageNormsOfNan(Backend& backend, const DeviceAccess& access) {
  ForEachNorm(1e-5F, [&](NormStep step) {
    step.values[X()][777] = std::nan("");
    const Values want = ReferenceStep(step.signature, step.values);
    const Values got = RunStep(backend, access, step.signature, step.values).value();
    for (const auto& [operand, values] : got) {
      int different = 0;
      for (size_t i = 0; i < values.size(); ++i)
        different += std::isnan(values[i]) != std::isnan(want.at(operand)[i]) ? 1 : 0;
      CHECK(different == 0);
    }
  });
}

void CheckLayerNormBitsOfLayouts(Backend& backend, const DeviceAccess& access) {
  for (const LayerNorm& norm :
       {LayerNorm{}, LayerNorm{.bias = false}, LayerNorm{.affine = false}}) {
    for (const Shape& shape : {Shape{2, 5, 9, 33}, Shape{3, 40, 16, 16}, Shape{2, 3, 1, 1}}) {
      CAPTURE(norm.Parameters());
      CAPTURE(shape.ToString());
      const auto results_of = [&](Layout layout) {
        const TensorSpec x = {shape, DType::kFp32, layout};
        NormStep step = ForwardOfNorm(norm, x);
        Values results = RunStep(backend, access, step.signature, step.values).value();
        for (const auto& [operand, values] : results) step.values[operand] = values;
        const LayerSpec spec = Layer(norm).Specify({.inputs = {x}}).value();
        const StepSignature backward =
            SignatureOf(spec.steps[1], {.layer = norm, .spec = spec, .inputs = {x}});
        results.merge(RunStep(backend, access, backward, step.values).value());
        return results;
      };
      CHECK(results_of(Layout::kChannelsFirst) == results_of(Layout::kChannelsLast));
    }
  }
}

}  // namespace neap::testing

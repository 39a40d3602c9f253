#include "tests/layers/addend_checks.h"

#include <doctest/doctest.h>

#include <string>

#include "neap/layers/convolution.h"
#include "neap/layers/norm/layer_norm.h"
#include "tests/layers/conformance.h"

namespace neap::testing {
namespace {

using namespace operands;

// The layer's last step, which computes dx, with the addend and with a sum behind it.
void CheckAddend(Backend& backend, const DeviceAccess& access, const Layer& layer,
                 const TensorSpec& x) {
  CAPTURE(std::string(layer.type()));
  CAPTURE(layer.Parameters());
  CAPTURE(x.ToString());
  const LayerSpec spec = layer.Specify({.inputs = {x}}).value();
  const SignatureOptions options = {.layer = layer, .spec = spec, .inputs = {x}};
  Values given = RandomValues({.name = "", .layer = layer, .inputs = {x}}, spec, /*seed=*/3);
  const StepSignature forward = SignatureOf(spec.steps[0], options);
  const Values results = RunStep(backend, access, forward, given).value();
  for (const auto& [operand, values] : results) given[operand] = values;
  StepSignature backward = SignatureOf(spec.steps.back(), options);
  Values apart = RunStep(backend, access, backward, given).value();
  const Values terms = {{Dx(), apart.at(Dx())}, {Addend(), given.at(X())}};
  apart[Dx()] = RunStep(backend, access, AdditionSignature(x), terms).value().at(Dx());
  backward.operands.push_back({Addend(), x, Access::kRead});
  given[Addend()] = given.at(X());
  CHECK(RunStep(backend, access, backward, given).value() == apart);
}

}  // namespace

void CheckAddends(Backend& backend, const DeviceAccess& access, DType dtype) {
  const auto depthwise = [](int64_t channels, int64_t kernel, int64_t stride) {
    return Convolution{.out_channels = channels,
                       .kernel = kernel,
                       .stride = stride,
                       .padding = kernel / 2,
                       .groups = channels};
  };
  for (const Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
    const auto check = [&](const Layer& layer, const Shape& shape) {
      CheckAddend(backend, access, layer, {shape, dtype, layout});
    };
    for (const LayerNorm& norm : {LayerNorm{}, LayerNorm{.affine = false}}) {
      for (const Shape& shape :
           {Shape{2, 5, 9, 33}, Shape{3, 40, 32, 32}, Shape{2, 768, 7}, Shape{1, 1600, 5}})
        check(norm, shape);
    }
    check(depthwise(24, 7, 1), {2, 24, 11, 9});
    check(depthwise(5, 3, 1), {2, 5, 8, 7});
    check(depthwise(16, 3, 2), {2, 16, 8, 7});  // a sum follows the kernel
  }
}

}  // namespace neap::testing

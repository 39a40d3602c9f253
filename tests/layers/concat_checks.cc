#include "tests/layers/concat_checks.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "neap/layers/fused_batch_norm.h"
#include "neap/layers/join.h"
#include "tests/layers/conformance.h"

namespace neap::testing {
namespace {

using namespace operands;

// Runs steps of layers on one backend.
struct Runner {
  Backend& backend;
  const DeviceAccess& access;

  // Backward adds to the gradients of the inputs with odd numbers, if there are several inputs.
  Values Run(const Layer& layer, const std::vector<TensorSpec>& inputs, size_t step,
             const Values& given, bool rerun = false) const {
    const LayerSpec spec = layer.Specify({.inputs = inputs}).value();
    StepSignature signature = SignatureOf(
        spec.steps[step], {.layer = layer, .spec = spec, .inputs = inputs, .rerun = rerun});
    for (OperandSpec& operand : signature.operands) {
      if (operand.operand.slot == Slot::kInputGrad && operand.operand.index % 2 == 1)
        operand.access = Access::kAccumulate;
    }
    absl::StatusOr<Values> results = RunStep(backend, access, signature, given);
    REQUIRE_MESSAGE(results.ok(), results.status().ToString());
    return *std::move(results);
  }
};

// `given` with the results of a step.
Values With(Values given, const Values& results) {
  for (const auto& [operand, values] : results) given[operand] = values;
  return given;
}

void CheckSameBits(const Values& fused, const Values& apart) {
  for (const auto& result : fused) {
    const std::string difference = Difference(result.second, apart.at(result.first), 0);
    CHECK_MESSAGE(difference.empty(), ToString(result.first), ": ", difference);
  }
}

void CheckParts(const Runner& runner, const std::vector<TensorSpec>& parts, bool relu) {
  const Layer fused = FusedBatchNorm{.relu = relu, .concatenates = true};
  const Layer norm = FusedBatchNorm{.relu = relu};
  const LayerSpec spec = fused.Specify({.inputs = parts}).value();
  const Values given = RandomValues({.name = "", .layer = fused, .inputs = parts}, spec, 7);
  const std::vector<TensorSpec> whole = {spec.output};
  Values joined = given;
  joined[X()] = runner.Run(Concat{}, parts, 0, given).at(Y());

  const Values forward = runner.Run(fused, parts, 0, given);
  CheckSameBits(forward, runner.Run(norm, whole, 0, joined));
  const Values rerun = runner.Run(fused, parts, 0, With(given, forward), /*rerun=*/true);
  CHECK(rerun.at(Y()) == forward.at(Y()));

  Values backward = runner.Run(norm, whole, 1, With(joined, forward));
  Values of_concat = given;
  of_concat[Dy()] = backward.at(Dx());
  backward = With(backward, runner.Run(Concat{}, parts, 1, of_concat));
  CheckSameBits(runner.Run(fused, parts, 1, With(given, forward)), backward);
}

}  // namespace

void CheckBatchNormOfParts(Backend& backend, const DeviceAccess& access, DType dtype) {
  const std::vector<std::vector<int64_t>> channels = {
      {32, 32, 8}, {64, 32, 32, 32, 32}, {1, 2, 5}, {12, 4, 32}, {3}, {20, 7}};
  for (const std::vector<int64_t>& parts : channels) {
    for (const Shape& image : {Shape{8, 1, 12, 12}, Shape{3, 1, 5, 3}, Shape{2, 1, 40, 40}}) {
      for (const Layout layout : {Layout::kNchw, Layout::kNhwc}) {
        std::vector<TensorSpec> inputs;
        for (int64_t c : parts)
          inputs.push_back({{image.n(), c, image.h(), image.w()}, dtype, layout});
        CAPTURE(inputs.back().ToString());
        CAPTURE(parts.size());
        for (const bool relu : {false, true}) CheckParts({backend, access}, inputs, relu);
      }
    }
  }
}

}  // namespace neap::testing

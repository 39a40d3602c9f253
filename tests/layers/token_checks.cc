#include "tests/layers/token_checks.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "neap/layers/tokens/embedding.h"
#include "neap/layers/tokens/linear_cross_entropy.h"

namespace neap::testing {
namespace {

using namespace operands;

Values RunToken(Backend& backend, const DeviceAccess& access, const StepSignature& signature,
                const Values& given) {
  const absl::StatusOr<Values> results = RunStep(backend, access, signature, given);
  REQUIRE_MESSAGE(results.ok(), results.status().ToString());
  return *results;
}

std::vector<double> SinesOf(const TensorSpec& spec) {
  std::vector<double> values;
  for (int64_t i = 0; i < spec.elements(); ++i)
    values.push_back(std::sin(static_cast<double>(3 * i)));
  return Rounded(spec, values);
}

}  // namespace

void CheckIdsWithoutGradients(Backend& backend, const DeviceAccess& access) {
  const Embedding layer = {.vocabulary = 3, .channels = 2, .padding = 1};
  for (const Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
    const std::vector<TensorSpec> inputs = {{.shape = {2, 3}, .dtype = DType::kInt32}};
    const LayerSpec spec = layer.Specify({.inputs = inputs, .layout = layout}).value();
    const SignatureOptions options = {.layer = layer, .spec = spec, .inputs = inputs};
    const std::vector<double> ids = {0, -1, 1, 2, 3, 0};
    const Values forward = RunToken(backend, access, SignatureOf(spec.steps[0], options),
                                    {{X(), ids}, {Param(0), {10, 11, 20, 21, 30, 31}}});
    const double nan = std::nan("");
    const std::vector<double> want = {10, nan, 20, 11, nan, 21, 30, nan, 10, 31, nan, 11};
    for (size_t i = 0; i < want.size(); ++i) {
      CAPTURE(i);
      const double got = forward.at(Y())[i];
      CHECK((std::isnan(want[i]) ? std::isnan(got) : got == want[i]));
    }
    const Values backward =
        RunToken(backend, access, SignatureOf(spec.steps[1], options),
                 {{X(), ids}, {Dy(), {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048}}});
    CHECK(backward.at(ParamGrad(0)) == std::vector<double>{257, 2056, 0, 0, 64, 512});
  }
}

void CheckTokenLossInParts(Backend& backend, const DeviceAccess& access, DType dtype) {
  const LinearCrossEntropy layer = {.classes = 7, .bias = true};
  const auto signature_of = [&](int64_t examples) {
    const std::vector<TensorSpec> inputs = {
        {.shape = {examples, 6, 5}, .dtype = dtype, .layout = Layout::kChannelsLast},
        {.shape = {examples, 5}, .dtype = DType::kInt32}};
    const LayerSpec spec = layer.Specify({.inputs = inputs}).value();
    return SignatureOf(spec.steps[1], {.layer = layer, .spec = spec, .inputs = inputs});
  };
  const StepSignature whole = signature_of(5);
  Values given = {{State(0), {0, 0}}};
  for (const Operand operand : {X(0), Param(0), Param(1)})
    given[operand] = SinesOf(whole.Spec(operand));
  for (int i = 0; i < 25; ++i) given[X(1)].push_back(i % 8 - 1);  // also kNoLabel
  const Values want = RunToken(backend, access, whole, given);
  Values sums = {{State(0), {0, 0}}};
  std::vector<double> dx;
  int64_t first = 0;
  for (const int64_t examples : {2, 3}) {
    StepSignature part = signature_of(examples);
    part.part = {.first = first, .of = 5};
    if (first > 0) part = AddingSignature(std::move(part));
    Values of_part = given;
    for (const Operand operand : {X(0), X(1)}) {
      const size_t of_example = given.at(operand).size() / 5;
      const auto begin = given.at(operand).begin() + first * static_cast<int64_t>(of_example);
      of_part[operand] = {begin, begin + examples * static_cast<int64_t>(of_example)};
    }
    for (const auto& [operand, sum] : sums) of_part[operand] = sum;
    const Values got = RunToken(backend, access, part, of_part);
    dx.insert(dx.end(), got.at(Dx(0)).begin(), got.at(Dx(0)).end());
    for (const Operand operand : {ParamGrad(0), ParamGrad(1), State(0)})
      sums[operand] = got.at(operand);
    first += examples;
  }
  sums[Dx(0)] = dx;
  const double epsilon = Is16Bit(dtype) ? 0.02 : 1e-5;  // products of other sizes round otherwise
  for (const auto& sum : sums) {
    const Operand operand = sum.first;
    const std::vector<double>& values = sum.second;
    CAPTURE(ToString(operand));
    REQUIRE(values.size() == want.at(operand).size());
    for (size_t i = 0; i < values.size(); ++i)
      CHECK(std::abs(values[i] - want.at(operand)[i]) <= epsilon);
  }
}

}  // namespace neap::testing

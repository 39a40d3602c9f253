#include "tests/layers/activation_checks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "neap/layers/activation.h"
#include "tests/layers/reference_activation.h"

namespace neap::testing {
namespace {

using namespace operands;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kLargest = 57344;  // near the largest fp16

// For an x, which 16-bit types have: y, and dx if dy is 1.
struct Corner {
  double x, y, slope;
};
struct Corners {
  Layer layer;
  std::vector<Corner> corners;
};

std::vector<Corners> AllCorners() {
  return {
      {LeakyRelu{0.25F},
       {{-2, -0.5, 0.25}, {0, 0, 0.25}, {2, 2, 1}, {-kInfinity, -kInfinity, 0.25}}},
      {LeakyRelu{0}, {{-2, 0, 0}, {0, 0, 0}, {2, 2, 1}}},
      {Clip{},
       {{-1, 0, 0},
        {0, 0, 0},
        {1, 1, 1},
        {5, 5, 1},
        {6, 6, 0},
        {7, 6, 0},
        {kInfinity, 6, 0},
        {-kInfinity, 0, 0}}},
      {Clip{-1, 1}, {{-2, -1, 0}, {-1, -1, 0}, {-0.5, -0.5, 1}, {0, 0, 1}, {1, 1, 0}}},
      {HardSigmoid{},
       {{-4, 0, 0},
        {-3, 0, 0},
        {0, 0.5, 1.0 / 6},
        {1.5, 0.75, 1.0 / 6},
        {3, 1, 0},
        {4, 1, 0},
        {kInfinity, 1, 0},
        {-kInfinity, 0, 0}}},
      {HardSwish{},
       {{-4, 0, 0},
        {-3, 0, 0},
        {-1.5, -0.375, 0},
        {0, 0, 0.5},
        {1.5, 1.125, 1},
        {3, 3, 1},
        {4, 4, 1},
        {kInfinity, kInfinity, 1}}},
      {Silu{}, {{0, 0, 0.5}, {-64, 0, 0}, {64, 64, 1}}},
      {Gelu{},
       {{-kLargest, 0, 0},
        {-2, -0.04550026, -0.08523180},
        {-0.75, -0.16997051, 0.00077428},
        {0, 0, 0.5},
        {1, 0.84134475, 1.08331547},
        {kLargest, kLargest, 1},
        {kInfinity, kInfinity, kNan},
        {-kInfinity, kNan, kNan}}},
      {Gelu{Gelu::Approximation::kTanh},
       {{-kLargest, 0, 0},
        {-2, -0.04540231, -0.08609928},
        {0, 0, 0.5},
        {1, 0.84119199, 1.08296403},
        {kLargest, kLargest, 1},
        {kInfinity, kInfinity, kNan},
        {-kInfinity, kNan, kNan}}},
      {Elu{0.5F},
       {{-kInfinity, -0.5, 0},
        {-kLargest, -0.5, 0},
        {-1, -0.31606028, 0.18393972},
        {-0.0, 0, 0.5},
        {0, 0, 0.5},
        {2, 2, 1},
        {kInfinity, kInfinity, 1}}},
      {Elu{0}, {{-2, 0, 0}, {0, 0, 0}, {2, 2, 1}}},
      // The sum of alpha and a y of 16 bits is not 0.
      {Elu{23.3F}, {{-16, -23.299997, 2.6220695e-06}}},
      {Elu{-0.3F}, {{-1, 0.18963617, -0.11036383}}},
      {Softplus{},
       {{-kInfinity, 0, 0},
        {-kLargest, 0, 0},
        {0, 0.69314718, 0.5},
        {1, 1.31326169, 0.73105858},
        {20, 20, 1},
        {21, 21, 1},
        {kLargest, kLargest, 1},
        {kInfinity, kInfinity, 1}}},
      // At the threshold and above it.
      {Softplus{.beta = 2, .threshold = 1},
       {{-1, 0.06346401, 0.11920292}, {0.5, 0.65663084, 0.73105858}, {0.75, 0.75, 1}}},
      // PyTorch's formula overflows here.
      {Softplus{.threshold = 1000}, {{100, 100, 1}, {kLargest, kLargest, 1}}},
      {Mish{},
       {{-kLargest, 0, 0},
        {-1, -0.30340146, 0.05921676},
        {0, 0, 0.6},
        {1, 0.86509839, 1.04903633},
        {kLargest, kLargest, 1},
        {kInfinity, kInfinity, kNan},
        {-kInfinity, kNan, kNan}}},
  };
}

bool Agrees(double value, double wanted, double tolerance) {
  if (std::isnan(wanted)) return std::isnan(value);
  return value == wanted || std::abs(value - wanted) <= tolerance * std::max(1.0, std::abs(wanted));
}

void CheckCorners(Backend& backend, const DeviceAccess& access, const Corners& of,
                  const TensorSpec& x) {
  const LayerSpec spec = of.layer.Specify({.inputs = {x}}).value();
  Values values;
  for (const Corner& corner : of.corners) values[X()].push_back(corner.x);
  values[X()].push_back(kNan);
  values[Dy()].assign(of.corners.size() + 1, 1);
  for (const StepSpec& step : spec.steps) {
    const StepSignature signature =
        SignatureOf(step, {.layer = of.layer, .spec = spec, .inputs = {x}});
    const absl::StatusOr<Values> got = RunStep(backend, access, signature, values);
    REQUIRE_MESSAGE(got.ok(), got.status().ToString());
    for (const auto& [operand, result] : *got) values[operand] = result;
  }
  const double tolerance = x.dtype == DType::kBf16 ? 0x1p-8 : 0x1p-11;
  for (size_t i = 0; i < of.corners.size(); ++i) {
    const Corner& corner = of.corners[i];
    CAPTURE(corner.x);
    const double y = values.at(Y())[i], slope = values.at(Dx())[i];
    CHECK(Agrees(y, corner.y, tolerance));
    CHECK(Agrees(slope, corner.slope, tolerance));
  }
  CHECK(std::isnan(values.at(Y()).back()));
}

// All finite numbers of the type.
std::vector<double> FiniteNumbers(DType dtype) {
  const TensorSpec all = {{1, 1, 1, 1 << 16}, dtype};
  std::vector<std::byte> bytes;
  for (int bits = 0; bits < 1 << 16; ++bits) {
    const auto number = static_cast<uint16_t>(bits);
    const auto* const at = reinterpret_cast<const std::byte*>(&number);
    bytes.insert(bytes.end(), at, at + sizeof(number));
  }
  std::vector<double> numbers = FromBytes(all, bytes.data());
  std::erase_if(numbers, [](double number) { return !std::isfinite(number); });
  return numbers;
}

// The distance of numbers of the type at `value`.
double UnitInLastPlace(double value, DType dtype) {
  const bool is_bf16 = dtype == DType::kBf16;
  const int least = is_bf16 ? -126 : -14;
  const int exponent = value == 0 ? least : std::max(std::ilogb(value), least);
  return std::ldexp(1, exponent - (is_bf16 ? 7 : 10));
}

void CheckAccuracy(Backend& backend, const DeviceAccess& access, const Layer& layer, DType dtype) {
  Values values = {{X(), FiniteNumbers(dtype)}};
  const size_t count = values.at(X()).size();
  values[Dy()].assign(count, 1);
  const TensorSpec x = {{1, 1, 1, static_cast<int64_t>(count)}, dtype};
  const LayerSpec spec = layer.Specify({.inputs = {x}}).value();
  for (const StepSpec& step : spec.steps) {
    const StepSignature signature =
        SignatureOf(step, {.layer = layer, .spec = spec, .inputs = {x}});
    const absl::StatusOr<Values> results = RunStep(backend, access, signature, values);
    REQUIRE_MESSAGE(results.ok(), results.status().ToString());
    const bool is_forward = step.phase == Phase::kForward;
    const Operand result = is_forward ? Y() : Dx();
    const std::vector<double>& got = results->at(result);
    const std::vector<double> want = ReferenceActivation(signature, values).at(result);
    size_t wrong = 0, last_wrong = 0;
    for (size_t i = 0; i < count; ++i) {
      const double cancelled = !is_forward && std::abs(values.at(X())[i]) <= 2 ? 0x1p-20 : 0;
      const double allowed = 0.51 * UnitInLastPlace(want[i], dtype) + cancelled;
      if (std::abs(got[i] - want[i]) <= allowed) continue;
      ++wrong;
      last_wrong = i;
    }
    CAPTURE(is_forward);
    CHECK_MESSAGE(wrong == 0, wrong, " numbers, the last for ", values.at(X())[last_wrong], ": ",
                  got[last_wrong], ", not ", want[last_wrong]);
    for (const auto& [operand, of] : *results) values[operand] = of;
  }
}

}  // namespace

void CheckActivationCorners(Backend& backend, const DeviceAccess& access, DType dtype) {
  for (const Corners& of : AllCorners()) {
    const int64_t count = static_cast<int64_t>(of.corners.size()) + 1;
    CAPTURE(std::string(of.layer.type()));
    for (const Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast})
      CheckCorners(backend, access, of, {{1, 1, 1, count}, dtype, layout});
  }
}

void CheckActivationAccuracy(Backend& backend, const DeviceAccess& access, DType dtype) {
  const Layer layers[] = {Sigmoid{},
                          Tanh{},
                          Silu{},
                          Gelu{},
                          Gelu{Gelu::Approximation::kTanh},
                          Elu{0.75F},
                          Elu{1.0F},
                          Softplus{},
                          Softplus{.beta = 2},
                          Mish{}};
  for (const Layer& layer : layers) {
    CAPTURE(std::string(layer.type()));
    CheckAccuracy(backend, access, layer, dtype);
  }
}

}  // namespace neap::testing

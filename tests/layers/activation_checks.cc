#include "tests/layers/activation_checks.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>

#include "neap/layers/activation.h"

namespace neap::testing {
namespace {

using namespace operands;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

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
  };
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
    CHECK((y == corner.y || std::abs(y - corner.y) <= tolerance));
    CHECK(std::abs(slope - corner.slope) <= tolerance);
  }
  CHECK(std::isnan(values.at(Y()).back()));
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

}  // namespace neap::testing

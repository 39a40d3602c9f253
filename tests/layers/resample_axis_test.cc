// The ranges and weights of one axis against the definitions of layers/resize/resize.h and
// AdaptiveAveragePool, written out as a matrix.
#include "neap/layers/steps/resample_axis.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "neap/layers/resize/resample_axes.h"
#include "neap/layers/resize/resize.h"

namespace neap {
namespace {

constexpr int64_t kMaxExtent = 12;

using Row = std::vector<double>;  // the weight of each input in an output

void AddAt(Row& row, double position, double weight) {
  const double last = static_cast<double>(row.size()) - 1;
  row[static_cast<size_t>(std::clamp(position, 0.0, last))] += weight;
}

// The scales of a layer that has some stand for fractions with this denominator.
constexpr double kUnder = 300;

double PositionOf(const Resize& resize, int64_t i, int64_t in, int64_t out) {
  const auto at = static_cast<double>(i);
  double x = static_cast<double>(in), y = static_cast<double>(out);
  if (const double* const scale = resize.ScaleOf(0)) {
    x = kUnder;
    y = std::round(*scale * kUnder);
  }
  switch (resize.coordinates) {
    case Resize::Coordinates::kHalfPixel:
      return ((2 * at + 1) * x - y) / (2 * y);
    case Resize::Coordinates::kAlignCorners:
      return out == 1 ? 0 : at * (x - 1) / (y - 1);
    case Resize::Coordinates::kAsymmetric:
      return at * x / y;
  }
  return 0;
}

double RoundedTo(double position, Resize::Rounding rounding) {
  switch (rounding) {
    case Resize::Rounding::kFloor:
      return std::floor(position);
    case Resize::Rounding::kCeil:
      return std::ceil(position);
    case Resize::Rounding::kPreferFloor:
      return std::ceil(position - 0.5);
    case Resize::Rounding::kPreferCeil:
      return std::floor(position + 0.5);
  }
  return 0;
}

double Keys(double distance, double a) {
  const double t = std::abs(distance);
  if (t <= 1) return (a + 2) * t * t * t - (a + 3) * t * t + 1;
  return t < 2 ? a * t * t * t - 5 * a * t * t + 8 * a * t - 4 * a : 0;
}

Row ResizedRow(const Resize& resize, int64_t i, int64_t in, int64_t out) {
  Row row(static_cast<size_t>(in));
  const double position = PositionOf(resize, i, in, out), before = std::floor(position);
  switch (resize.mode) {
    case Resize::Mode::kNearest:
      AddAt(row, RoundedTo(position, resize.rounding), 1);
      break;
    case Resize::Mode::kLinear:
      AddAt(row, before, 1 - (position - before));
      AddAt(row, before + 1, position - before);
      break;
    case Resize::Mode::kCubic:
      for (double tap = before - 1; tap <= before + 2; ++tap)
        AddAt(row, tap, Keys(position - tap, static_cast<double>(resize.cubic_coefficient)));
  }
  return row;
}

Row AveragedRow(int64_t i, int64_t in, int64_t out) {
  Row row(static_cast<size_t>(in));
  const int64_t first = i * in / out, last = ((i + 1) * in + out - 1) / out;
  for (int64_t j = first; j < last; ++j)
    row[static_cast<size_t>(j)] = 1 / static_cast<double>(last - first);
  return row;
}

template <typename Int>
bool Contains(const IndexRange<Int>& range, int64_t index) {
  return range.first <= index && index < range.last;
}

// How many elements of the matrix the axis has otherwise. What is outside a range must be 0.
int FaultsOf(const ResampleAxis<int64_t>& axis, const std::function<Row(int64_t)>& row_of) {
  int faults = 0;
  for (int64_t i = 0; i < axis.out; ++i) {
    const Row row = row_of(i);
    const IndexRange<int64_t> inputs = axis.Inputs(i);
    if (inputs.first < 0 || inputs.first >= inputs.last || inputs.last > axis.in) ++faults;
    if (inputs.last - inputs.first > axis.MaxInputs()) ++faults;
    for (int64_t j = 0; j < axis.in; ++j) {
      const bool is_read = Contains(inputs, j);
      const double weight = is_read ? static_cast<double>(axis.Weight(i, j)) : 0;
      if (std::abs(weight - row[static_cast<size_t>(j)]) > 2e-6) ++faults;
      if (Contains(axis.Outputs(j), i) != is_read) ++faults;
      if (axis.Outputs(j).last - axis.Outputs(j).first > axis.MaxOutputs()) ++faults;
    }
  }
  return faults;
}

// Whether 32-bit integers give the same.
bool IsSameIn32(const ResampleAxis<int64_t>& axis) {
  const ResampleAxis<int32_t> narrow = In32(axis);
  const auto is_same = [](const IndexRange<int64_t>& a, const IndexRange<int32_t>& b) {
    return a.first == b.first && a.last == b.last;
  };
  for (int32_t i = 0; i < narrow.out; ++i) {
    if (!is_same(axis.Inputs(i), narrow.Inputs(i))) return false;
    for (int32_t j = narrow.Inputs(i).first; j < narrow.Inputs(i).last; ++j) {
      if (axis.Weight(i, j) != narrow.Weight(i, j)) return false;
    }
  }
  for (int32_t j = 0; j < narrow.in; ++j) {
    if (!is_same(axis.Outputs(j), narrow.Outputs(j))) return false;
  }
  return Fits32(axis);
}

std::vector<Resize> AllWays() {
  std::vector<Resize> ways;
  for (const auto coordinates :
       {Resize::Coordinates::kHalfPixel, Resize::Coordinates::kAlignCorners,
        Resize::Coordinates::kAsymmetric}) {
    for (const auto rounding : {Resize::Rounding::kFloor, Resize::Rounding::kCeil,
                                Resize::Rounding::kPreferFloor, Resize::Rounding::kPreferCeil})
      ways.push_back({.coordinates = coordinates, .rounding = rounding});
    ways.push_back({.mode = Resize::Mode::kLinear, .coordinates = coordinates});
    for (const float a : {-0.75F, -0.5F}) {
      ways.push_back(
          {.mode = Resize::Mode::kCubic, .coordinates = coordinates, .cubic_coefficient = a});
    }
  }
  return ways;
}

TEST_CASE("ranges and weights of every interpolation are those of its definition") {
  for (const Resize& resize : AllWays()) {
    for (int64_t in = 1; in <= kMaxExtent; ++in) {
      for (int64_t out = 1; out <= kMaxExtent; ++out) {
        CAPTURE(resize.Parameters());
        CAPTURE(in);
        CAPTURE(out);
        const ResampleAxis<int64_t> axis = AxisOf(resize, nullptr, in, out);
        CHECK(FaultsOf(axis, [&](int64_t i) { return ResizedRow(resize, i, in, out); }) == 0);
        CHECK(IsSameIn32(axis));
      }
    }
  }
}

TEST_CASE("ranges and weights are those of the fraction for which an inexact scale stands") {
  for (const double scale : {0.7, 4.0 / 3, 1.0 / 3, 0.29, 1.15}) {
    for (Resize resize : AllWays()) {
      if (resize.coordinates == Resize::Coordinates::kAlignCorners) continue;
      resize.scales = {scale};
      for (const int64_t in : {4, 9, 20, 100}) {
        const int64_t out = ScaledExtent(in, scale);
        CAPTURE(resize.Parameters());
        CAPTURE(in);
        const ResampleAxis<int64_t> axis = AxisOf(resize, resize.ScaleOf(0), in, out);
        CHECK(FaultsOf(axis, [&](int64_t i) { return ResizedRow(resize, i, in, out); }) == 0);
        CHECK(IsSameIn32(axis));
      }
    }
  }
}

TEST_CASE("ranges and weights of adaptive average pooling are those of its definition") {
  for (int64_t in = 1; in <= kMaxExtent; ++in) {
    for (int64_t out = 1; out <= kMaxExtent; ++out) {
      CAPTURE(in);
      CAPTURE(out);
      const ResampleAxis<int64_t> axis = AveragedAxis(in, out);
      CHECK(FaultsOf(axis, [&](int64_t i) { return AveragedRow(i, in, out); }) == 0);
      CHECK(IsSameIn32(axis));
    }
  }
}

TEST_CASE(
    "a mean's weight takes two divisions, of the bounds of its range, by the given function") {
  const ResampleAxis<int64_t> axis = AveragedAxis(10, 4);
  int divisions = 0;
  const auto by_unit = [&](int64_t n) {
    ++divisions;
    return n / axis.unit;
  };
  CHECK(axis.Weight(1, 2, by_unit) == axis.Weight(1, 2));
  CHECK(divisions == 2);
}

TEST_CASE("positions follow from a given scale, not from the rounded number of outputs") {
  const double scale = 1.5;  // 5 inputs to 7
  const Resize resize = {.mode = Resize::Mode::kLinear};
  const ResampleAxis<int64_t> axis = AxisOf(resize, &scale, 5, 7);
  CHECK(axis.Inputs(6).first == 3);  // at 6.5 / 1.5 - 0.5 = 3 + 5 / 6
  CHECK(axis.Weight(6, 4) == doctest::Approx(5.0 / 6));
  const ResampleAxis<int64_t> of_sizes = AxisOf(resize, nullptr, 5, 7);
  CHECK(of_sizes.Weight(6, 4) == 1);  // at 4 + 1 / 7
}

TEST_CASE("the longest ranges of doubled and halved axes are known") {
  const auto most = [](const Resize& resize, int64_t in, int64_t out) {
    const ResampleAxis<int64_t> axis = AxisOf(resize, nullptr, in, out);
    return std::pair(axis.MaxInputs(), axis.MaxOutputs());
  };
  using Pair = std::pair<int64_t, int64_t>;
  CHECK(most({}, 8, 16) == Pair(1, 2));
  CHECK(most({.mode = Resize::Mode::kLinear}, 8, 16) == Pair(2, 4));
  CHECK(most({.mode = Resize::Mode::kLinear}, 16, 8) == Pair(2, 1));
  for (const int64_t in : {4, 64, 128}) {
    const Resize corners = {.mode = Resize::Mode::kLinear,
                            .coordinates = Resize::Coordinates::kAlignCorners};
    CHECK(most(corners, in, 2 * in) == Pair(2, 4));
  }
  CHECK(most({.mode = Resize::Mode::kLinear}, 1, 5) == Pair(1, 5));
  CHECK(most({.mode = Resize::Mode::kCubic}, 8, 16) == Pair(4, 8));
  CHECK(AveragedAxis(8, 4).MaxInputs() == 2);
  CHECK(AveragedAxis(8, 4).MaxOutputs() == 1);
}

TEST_CASE("an axis of the largest extents has exact positions") {
  const Resize resize = {.mode = Resize::Mode::kLinear};
  const int64_t in = kMaxResampledExtent - 1, out = kMaxResampledExtent;
  const ResampleAxis<int64_t> axis = AxisOf(resize, nullptr, in, out);
  CHECK_FALSE(Fits32(axis));
  CHECK(axis.Inputs(0).first == 0);
  CHECK(axis.Inputs(out - 1).last == in);
  CHECK(axis.Inputs(out / 2).first == in / 2);
  CHECK(axis.Outputs(in - 1).last == out);
  CHECK_FALSE(Fits32(AxisOf({}, nullptr, kMaxResampledExtent, kMaxResampledExtent - 1)));
}

TEST_CASE("a scale stands for the simplest fraction that rounds to it") {
  const auto text = [](auto scale) {
    const Fraction fraction = FractionOf(scale);
    return std::to_string(fraction.over) + "/" + std::to_string(fraction.under);
  };
  CHECK(text(2.0) == "2/1");
  CHECK(text(0.5) == "1/2");
  CHECK(text(1.5) == "3/2");
  CHECK((text(0.7) == "7/10" && text(0.7F) == "7/10"));
  CHECK((text(0.29) == "29/100" && text(0.29F) == "29/100"));
  CHECK((text(4.0 / 3) == "4/3" && text(4.0F / 3) == "4/3"));
  CHECK((text(1.0 / 3) == "1/3" && text(1.0F / 3) == "1/3"));
  CHECK(text(0x1p-30) == "1/1073741824");
  CHECK(text(0x1p30) == "1073741824/1");
  CHECK(text(1 + 0x1p-52) == "1/1");  // no numbers below 2^30 are closer
  std::mt19937_64 random(1);
  for (int i = 0; i < 10000; ++i) {
    const double mantissa = 1 + static_cast<double>(random() >> 12) * 0x1p-52;
    const double scale = std::ldexp(mantissa, static_cast<int>(random() % 60) - 30);
    const Fraction fraction = FractionOf(scale);
    CAPTURE(scale);
    const auto over = static_cast<double>(fraction.over),
               under = static_cast<double>(fraction.under);
    CHECK(std::abs(over / under / scale - 1) < 0x1p-29);
    CHECK(std::max(fraction.over, fraction.under) <= int64_t{1} << 30);
  }
}

}  // namespace
}  // namespace neap

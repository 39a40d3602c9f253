#include "neap/layers/resize/resample_axes.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <string>

#include "absl/strings/str_cat.h"
#include "neap/core/step/operands.h"

namespace neap {
namespace {

using namespace operands;

// Output i is at (i * step + offset) / unit.
struct AxisPositions {
  int64_t step = 1, offset = 0, unit = 1;
};

// `ratio` is that of inputs to outputs.
AxisPositions AxisPositionsOf(Resize::Coordinates coordinates, Fraction ratio, int64_t in,
                              int64_t out) {
  switch (coordinates) {
    case Resize::Coordinates::kHalfPixel:
      return {2 * ratio.over, ratio.over - ratio.under, 2 * ratio.under};
    case Resize::Coordinates::kAlignCorners:  // one input is read from every position
      if (in == 1 || out == 1) return {1, 0, out};
      return {in - 1, 0, out - 1};
    case Resize::Coordinates::kAsymmetric:
      return {ratio.over, 0, ratio.under};
  }
  return {};
}

// The positions of which the next lower integer is the rounded one.
AxisPositions Rounded(const AxisPositions& at, Resize::Rounding rounding) {
  const auto shift = [&] {
    switch (rounding) {
      case Resize::Rounding::kFloor:
        return int64_t{0};
      case Resize::Rounding::kCeil:
        return 2 * at.unit - 1;
      case Resize::Rounding::kPreferFloor:
        return at.unit - 1;
      case Resize::Rounding::kPreferCeil:
        return at.unit;
    }
    return int64_t{0};
  };
  return {2 * at.step, 2 * at.offset + shift(), 2 * at.unit};
}

Fraction Reduced(Fraction fraction) {
  const int64_t common = std::gcd(fraction.over, fraction.under);
  return {fraction.over / common, fraction.under / common};
}

Resampling KindOf(Resize::Mode mode) {
  switch (mode) {
    case Resize::Mode::kNearest:
      return Resampling::kNearest;
    case Resize::Mode::kLinear:
      return Resampling::kLinear;
    case Resize::Mode::kCubic:
      return Resampling::kCubic;
  }
  return Resampling::kNearest;
}

template <typename Float>
Fraction SimplestFraction(Float scale) {
  constexpr int64_t kMax = int64_t{1} << 30;
  Fraction before = {0, 1}, convergent = {1, 0};
  auto rest = static_cast<double>(scale);
  while (true) {
    const double whole = std::floor(rest);
    if (whole > kMax) return convergent;
    const auto term = static_cast<int64_t>(whole);
    const Fraction next = {term * convergent.over + before.over,
                           term * convergent.under + before.under};
    if (std::max(next.over, next.under) > kMax) return convergent;
    const double value = static_cast<double>(next.over) / static_cast<double>(next.under);
    if (static_cast<Float>(value) == scale) return next;
    before = convergent;
    convergent = next;
    rest = 1 / (rest - whole);
  }
}

}  // namespace

Fraction FractionOf(double scale) { return SimplestFraction(scale); }
Fraction FractionOf(float scale) { return SimplestFraction(scale); }

bool IsScale(double scale) {
  constexpr auto kMax = static_cast<double>(kMaxResampledExtent);
  return scale >= 1 / kMax && scale <= kMax;
}

int64_t ScaledExtent(int64_t in, double scale) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  const double out = std::floor(static_cast<double>(in) * scale);
  return out < static_cast<double>(kMax) ? static_cast<int64_t>(out) : kMax;
}

absl::Status CheckResampled(std::string_view what, const Shape& x, const Extents& out) {
  for (int i = 0; i < x.spatial_axes(); ++i) {
    const auto [least, most] = std::minmax({x[2 + i], out[i]});
    if (least >= 1 && most <= kMaxResampledExtent) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(std::string(what), " makes ", out[i], " positions of ", x[2 + i],
                     ", but there must be at least 1 and at most 2^30"));
  }
  return absl::OkStatus();
}

ResampleAxis<int64_t> AxisOf(const Resize& resize, const double* scale, int64_t in, int64_t out) {
  const Fraction of_scale = scale == nullptr ? Reduced({out, in}) : FractionOf(*scale);
  AxisPositions at = AxisPositionsOf(resize.coordinates, {of_scale.under, of_scale.over}, in, out);
  if (resize.mode == Resize::Mode::kNearest) at = Rounded(at, resize.rounding);
  return {.kind = KindOf(resize.mode),
          .in = in,
          .out = out,
          .step = at.step,
          .offset = at.offset,
          .unit = at.unit,
          .per_unit = 1 / static_cast<float>(at.unit),
          .cubic_coefficient = resize.cubic_coefficient};
}

ResampleAxis<int64_t> AveragedAxis(int64_t in, int64_t out) {
  const Fraction ratio = Reduced({in, out});
  return {
      .kind = Resampling::kAverage, .in = in, .out = out, .step = ratio.over, .unit = ratio.under};
}

ResampleAxes ResampleAxesOf(const StepSignature& signature) {
  const bool forward = signature.phase == Phase::kForward;
  const Shape& in = signature.Spec(forward ? X() : Dx()).shape;
  const Shape& out = signature.Spec(forward ? Y() : Dy()).shape;
  const auto* const resize = signature.layer.As<Resize>();
  ResampleAxes axes;
  const int count = in.spatial_axes();
  for (int i = 0; i < count; ++i) {
    ResampleAxis<int64_t>& axis = axes[static_cast<size_t>(kMaxSpatialAxes - count + i)];
    const int64_t from = in[2 + i], to = out[2 + i];
    axis =
        resize == nullptr ? AveragedAxis(from, to) : AxisOf(*resize, resize->ScaleOf(i), from, to);
  }
  return axes;
}

}  // namespace neap

#include "tests/layers/reference_resize.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "neap/layers/pooling.h"
#include "neap/layers/resize/pixel_shuffle.h"
#include "neap/layers/resize/resize.h"

namespace neap::testing {
namespace {

using namespace operands;
using Vector = std::vector<double>;

// An element along one axis, and how much of it an output has.
struct AxisTap {
  int64_t at;
  double weight;
};
using AxisTaps = std::vector<AxisTap>;

AxisTap Clamped(double at, double weight, int64_t in) {
  return {std::clamp(static_cast<int64_t>(at), int64_t{0}, in - 1), weight};
}

// The position that is a whole number or a half, if rounding alone keeps this one from it.
double WithoutRounding(double position) {
  const double nearest = std::round(2 * position) / 2;
  return std::abs(position - nearest) < 1e-9 ? nearest : position;
}

// Quotients of whole numbers, which are whole if they should be. Scales are those of float64: 0.7
// is a little less than 7/10, for which it stands.
double ResizedPosition(const Resize& resize, const double* scale, int64_t i, int64_t in,
                       int64_t out) {
  const auto at = static_cast<double>(i), x = static_cast<double>(in), y = static_cast<double>(out);
  if (resize.coordinates == Resize::Coordinates::kAlignCorners)
    return out == 1 ? 0 : at * (x - 1) / (y - 1);
  const bool half = resize.coordinates == Resize::Coordinates::kHalfPixel;
  if (scale != nullptr) return WithoutRounding(half ? (at + 0.5) / *scale - 0.5 : at / *scale);
  return half ? ((2 * at + 1) * x - y) / (2 * y) : at * x / y;
}

double NearestTo(double position, Resize::Rounding rounding) {
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

// Keys' kernel, with the polynomials multiplied out.
double CubicKernel(double distance, double a) {
  const double t = std::abs(distance), t2 = t * t, t3 = t2 * t;
  if (t <= 1) return (a + 2) * t3 - (a + 3) * t2 + 1;
  return t < 2 ? a * (t3 - 5 * t2 + 8 * t - 4) : 0;
}

AxisTaps ResizedTaps(const Resize& resize, const double* scale, int64_t i, int64_t in,
                     int64_t out) {
  const double position = ResizedPosition(resize, scale, i, in, out), before = std::floor(position);
  AxisTaps taps;
  switch (resize.mode) {
    case Resize::Mode::kNearest:
      taps.push_back(Clamped(NearestTo(position, resize.rounding), 1, in));
      break;
    case Resize::Mode::kLinear:
      taps.push_back(Clamped(before, before + 1 - position, in));
      taps.push_back(Clamped(before + 1, position - before, in));
      break;
    case Resize::Mode::kCubic:
      for (double at = before - 1; at < before + 3; ++at) {
        const double a = static_cast<double>(resize.cubic_coefficient);
        taps.push_back(Clamped(at, CubicKernel(position - at, a), in));
      }
  }
  return taps;
}

AxisTaps AveragedTaps(int64_t i, int64_t in, int64_t out) {
  const double x = static_cast<double>(in), y = static_cast<double>(out);
  const auto first = static_cast<int64_t>(std::floor(static_cast<double>(i) * x / y));
  const auto last = static_cast<int64_t>(std::ceil(static_cast<double>(i + 1) * x / y));
  AxisTaps taps;
  for (int64_t at = first; at < last; ++at)
    taps.push_back({at, 1 / static_cast<double>(last - first)});
  return taps;
}

// The positions of a shape's elements along its spatial axes, and the number of their image and
// channel.
struct Place {
  int64_t plane;
  std::vector<int64_t> at;
};
Place PlaceOf(const Shape& shape, int64_t i) {
  Place place = {0, std::vector<int64_t>(shape.spatial().size())};
  for (size_t axis = place.at.size(); axis-- > 0;) {
    place.at[axis] = i % shape.spatial()[axis];
    i /= shape.spatial()[axis];
  }
  place.plane = i;
  return place;
}
size_t IndexOf(const Shape& shape, const Place& place) {
  int64_t i = place.plane;
  for (size_t axis = 0; axis < place.at.size(); ++axis)
    i = i * shape.spatial()[axis] + place.at[axis];
  return static_cast<size_t>(i);
}

// Calls f(input, output, weight) for every input of every output, where taps_of(axis, i) are those
// along one axis.
void ForEachProduct(const Shape& in, const Shape& out,
                    const std::function<AxisTaps(int axis, int64_t i)>& taps_of,
                    const std::function<void(size_t, size_t, double)>& f) {
  for (int64_t i = 0; i < out.elements(); ++i) {
    const Place place = PlaceOf(out, i);
    std::vector<std::pair<Place, double>> products = {{{place.plane, {}}, 1}};
    for (int axis = 0; axis < out.spatial_axes(); ++axis) {
      std::vector<std::pair<Place, double>> longer;
      for (const auto& [from, weight] : products) {
        for (const AxisTap& tap : taps_of(axis, place.at[static_cast<size_t>(axis)])) {
          longer.push_back({from, weight * tap.weight});
          longer.back().first.at.push_back(tap.at);
        }
      }
      products = std::move(longer);
    }
    for (const auto& [from, weight] : products)
      f(IndexOf(in, from), static_cast<size_t>(i), weight);
  }
}

Values Interpolated(const StepSignature& signature, const Values& given,
                    const std::function<AxisTaps(int axis, int64_t i)>& taps_of) {
  const bool forward = signature.phase == Phase::kForward;
  const Shape& in = signature.Spec(forward ? X() : Dx()).shape;
  const Shape& out = signature.Spec(forward ? Y() : Dy()).shape;
  const Vector& read = given.at(forward ? X() : Dy());
  Vector result(static_cast<size_t>((forward ? out : in).elements()));
  ForEachProduct(in, out, taps_of, [&](size_t x, size_t y, double weight) {
    result[forward ? y : x] += weight * read[forward ? x : y];
  });
  return {{forward ? Y() : Dx(), result}};
}

// The channel and, in a block, the position along each axis of a channel of the small image.
Place InBlock(int64_t channel, int64_t channels, int axes, int64_t factor, bool blocks_first) {
  Place place = {0, std::vector<int64_t>(static_cast<size_t>(axes))};
  int64_t rest = blocks_first ? channel / channels : channel;
  for (size_t axis = place.at.size(); axis-- > 0;) {
    place.at[axis] = rest % factor;
    rest /= factor;
  }
  place.plane = blocks_first ? channel % channels : rest;
  return place;
}

}  // namespace

Values ReferenceResize(const StepSignature& signature, const Values& given) {
  const bool forward = signature.phase == Phase::kForward;
  const Shape& in = signature.Spec(forward ? X() : Dx()).shape;
  const Shape& out = signature.Spec(forward ? Y() : Dy()).shape;
  const Resize& resize = *signature.layer.As<Resize>();
  return Interpolated(signature, given, [&](int axis, int64_t i) {
    return ResizedTaps(resize, resize.ScaleOf(axis), i, in[2 + axis], out[2 + axis]);
  });
}

Values ReferenceAdaptiveAveragePool(const StepSignature& signature, const Values& given) {
  const bool forward = signature.phase == Phase::kForward;
  const Shape& in = signature.Spec(forward ? X() : Dx()).shape;
  const Shape& out = signature.Spec(forward ? Y() : Dy()).shape;
  return Interpolated(signature, given, [&](int axis, int64_t i) {
    return AveragedTaps(i, in[2 + axis], out[2 + axis]);
  });
}

Values ReferencePixelShuffle(const StepSignature& signature, const Values& given) {
  const bool forward = signature.phase == Phase::kForward;
  const auto* const shuffle = signature.layer.As<PixelShuffle>();
  const auto* const unshuffle = signature.layer.As<PixelUnshuffle>();
  const int64_t factor = shuffle == nullptr ? unshuffle->factor : shuffle->factor;
  const bool blocks_first = shuffle == nullptr ? unshuffle->blocks_first : shuffle->blocks_first;
  const Operand from = forward ? X() : Dy(), to = forward ? Y() : Dx();
  const bool reads_small = (shuffle != nullptr) == forward;
  const Shape& small = signature.Spec(reads_small ? from : to).shape;
  const Shape& large = signature.Spec(reads_small ? to : from).shape;
  const Vector& read = given.at(from);
  Vector result(read.size());
  for (int64_t i = 0; i < small.elements(); ++i) {
    const Place place = PlaceOf(small, i);
    Place in_large =
        InBlock(place.plane % small.c(), large.c(), small.spatial_axes(), factor, blocks_first);
    in_large.plane += place.plane / small.c() * large.c();
    for (size_t axis = 0; axis < place.at.size(); ++axis)
      in_large.at[axis] += place.at[axis] * factor;
    const size_t a = static_cast<size_t>(i), b = IndexOf(large, in_large);
    result[reads_small ? b : a] = read[reads_small ? a : b];
  }
  return {{to, result}};
}

}  // namespace neap::testing

// One axis of an interpolation: the elements of the input that an element of the output is made of,
// and those of the output that an element of the input goes into. Resize (layers/resize/resize.h)
// and AdaptiveAveragePool (layers/pooling.h) have one for each spatial axis. The kernels of all
// backends share it, and both directions gather: no two threads write one element.
//
// Output i is at position (i * step + offset) / unit among the inputs. Positions are fractions of
// integers, so rounding takes none past an element, and ranges have exact bounds.
//
//   3 inputs to 6, linear, half pixels: output i is at (2 i - 1) / 4
//
//   output   0   1   2   3   4   5      Inputs(2) = [0, 2), with weights 0.25 and 0.75
//   input      0       1       2        Outputs(1) = [1, 5): these outputs read input 1
//
// Beyond the first and the last input are copies of them, whose weights are added to theirs.
#pragma once

#include <algorithm>
#include <cstdint>

namespace neap {

// The most elements of an axis, so that positions fit 64 bits.
inline constexpr int64_t kMaxResampledExtent = int64_t{1} << 30;

enum class Resampling : uint8_t { kNearest, kLinear, kCubic, kAverage };

// [first, last)
template <typename Int>
struct IndexRange {
  Int first = 0, last = 0;
};

// Ranges are never empty, except Outputs() of an input that no output reads. Int is wide enough for
// (out + 3) * step and (in + 3) * unit. constexpr, so that CUDA kernels call the same code
// (--expt-relaxed-constexpr).
template <typename Int>
struct ResampleAxis {
  Resampling kind = Resampling::kNearest;
  Int in = 1, out = 1;
  Int step = 1, offset = 0, unit = 1;  // step and unit are positive
  float per_unit = 1;                  // 1 / unit
  float cubic_coefficient = 0;

  struct Quotient {
    Int divisor;
    constexpr Int operator()(Int n) const { return n / divisor; }
  };
  constexpr IndexRange<Int> Inputs(Int i) const { return Inputs(i, Quotient{unit}); }
  constexpr IndexRange<Int> Outputs(Int j) const { return Outputs(j, Quotient{step}); }

  // The inputs that output i is made of. `by_unit` divides a number that is not negative by unit,
  // rounded down.
  template <typename Divide>
  constexpr IndexRange<Int> Inputs(Int i, const Divide& by_unit) const {
    const Int at = i * step + offset;
    switch (kind) {
      case Resampling::kNearest: {
        const Int nearest = std::min(FromZero(at, by_unit), in - 1);
        return {nearest, nearest + 1};
      }
      case Resampling::kAverage:
        return {FromZero(at, by_unit), FromZero(at + step + unit - 1, by_unit)};
      default:
        return {FromZero(at - (Radius() - 1) * unit, by_unit),
                std::min(FromZero(at + Radius() * unit + unit - 1, by_unit), in)};
    }
  }

  // The outputs that read input j. `by_step` is as `by_unit`.
  template <typename Divide>
  constexpr IndexRange<Int> Outputs(Int j, const Divide& by_step) const {
    const Int at = j * unit - offset;
    IndexRange<Int> range;
    switch (kind) {
      case Resampling::kNearest:
        range = {FromZero(at + step - 1, by_step), FromZero(at + unit + step - 1, by_step)};
        break;
      case Resampling::kAverage:
        range = {FromZero(at, by_step), FromZero(at + unit + step - 1, by_step)};
        break;
      default:
        range = {FromZero(at - Radius() * unit + step, by_step),
                 FromZero(at + Radius() * unit + step - 1, by_step)};
    }
    return {j == 0 ? 0 : range.first, j == in - 1 ? out : std::min(range.last, out)};
  }

  // The length of the longest range of each kind, or a little more.
  constexpr Int MaxInputs() const {
    if (kind == Resampling::kNearest) return 1;
    return std::min(kind == Resampling::kAverage ? MaxAveraged(step, unit) : 2 * Radius(), in);
  }
  constexpr Int MaxOutputs() const {
    constexpr Int kMaxCounted = 4096;  // beyond it, counting takes longer than it gains
    const auto length = [this](Int j) {
      const IndexRange<Int> outputs = Outputs(j);
      return outputs.last - outputs.first;
    };
    Int most = std::max(length(0), length(in - 1));
    if (in <= kMaxCounted) {
      for (Int j = 1; j < in - 1; ++j) most = std::max(most, length(j));
      return most;
    }
    const Int inner =
        kind == Resampling::kAverage ? MaxAveraged(unit, step) : (Width() * unit + step - 1) / step;
    return std::min(std::max(most, inner), out);
  }

  // The weight of input j, which is one of Inputs(i), in output i.
  constexpr float Weight(Int i, Int j) const { return Weight(i, j, Quotient{unit}); }
  template <typename Divide>
  constexpr float Weight(Int i, Int j, const Divide& by_unit) const {
    switch (kind) {
      case Resampling::kNearest:
        return 1;
      case Resampling::kLinear:
        return LinearWeight(i * step + offset - j * unit, j);
      case Resampling::kCubic:
        return CubicWeight(i * step + offset - j * unit, j);
      case Resampling::kAverage:
        return MeanWeight(Inputs(i, by_unit));
    }
    return 0;
  }
  // The weight of each input of a mean.
  static constexpr float MeanWeight(const IndexRange<Int>& inputs) {
    return 1 / static_cast<float>(inputs.last - inputs.first);
  }

 private:
  // Inputs at this distance and beyond have no weight.
  constexpr Int Radius() const { return kind == Resampling::kCubic ? 2 : 1; }
  // The distance between the ends of an input's reach.
  constexpr Int Width() const { return kind == Resampling::kNearest ? 1 : 2 * Radius(); }
  // The most integers from floor(i * step / unit) to ceil((i + 1) * step / unit), for any i. The
  // numbers have no common divisor, so some i * step has the remainder unit - 1.
  static constexpr Int MaxAveraged(Int step, Int unit) { return (step + 2 * unit - 2) / unit; }
  template <typename Divide>
  static constexpr Int FromZero(Int n, const Divide& divide) {
    return n < 0 ? 0 : divide(n);
  }

  // `distance` is that from input j to the output, in units.
  constexpr float LinearWeight(Int distance, Int j) const {
    if ((distance < 0 && j == 0) || (distance > 0 && j == in - 1)) return 1;
    return 1 - static_cast<float>(distance < 0 ? -distance : distance) * per_unit;
  }
  constexpr float CubicWeight(Int distance, Int j) const {
    constexpr Int kMaxCopies = 3;
    const Int before = j == 0 ? kMaxCopies : 0, after = j == in - 1 ? kMaxCopies : 0;
    float sum = 0;
    for (Int copy = -before; copy <= after; ++copy)
      sum += Cubic(static_cast<float>(distance - copy * unit) * per_unit);
    return sum;
  }
  // Keys, "Cubic convolution interpolation for digital image processing" (1981), equation 4.
  constexpr float Cubic(float signed_distance) const {
    const float a = cubic_coefficient, t = signed_distance < 0 ? -signed_distance : signed_distance;
    if (t <= 1) return ((a + 2) * t - (a + 3)) * t * t + 1;
    return t < 2 ? ((a * t - 5 * a) * t + 8 * a) * t - 4 * a : 0;
  }
};

// The same with 32-bit integers, and whether it is.
constexpr bool Fits32(const ResampleAxis<int64_t>& axis) {
  constexpr int64_t kEnd = int64_t{1} << 31;
  const int64_t offset = axis.offset < 0 ? -axis.offset : axis.offset;
  // Products may not fit into 64 bits.
  if (axis.out + 3 > kEnd / axis.step || axis.in + 3 > kEnd / axis.unit) return false;
  return (axis.out + 3) * axis.step + (axis.in + 3) * axis.unit + offset < kEnd;
}
constexpr ResampleAxis<int32_t> In32(const ResampleAxis<int64_t>& axis) {
  return {.kind = axis.kind,
          .in = static_cast<int32_t>(axis.in),
          .out = static_cast<int32_t>(axis.out),
          .step = static_cast<int32_t>(axis.step),
          .offset = static_cast<int32_t>(axis.offset),
          .unit = static_cast<int32_t>(axis.unit),
          .per_unit = axis.per_unit,
          .cubic_coefficient = axis.cubic_coefficient};
}

}  // namespace neap

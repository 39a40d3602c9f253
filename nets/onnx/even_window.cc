#include "neap/nets/onnx/even_window.h"

#include <algorithm>
#include <array>
#include <vector>

#include "neap/layers/pooling.h"

namespace neap::nets {
namespace {

// One axis of a window. The image has zeros around it that are not in `size`.
struct Axis {
  int64_t size, reach, stride, dilation;
  int64_t zeros_before, zeros_after;
  int64_t before, after;
  bool ceil_mode;

  // Positions in ONNX.
  int64_t Wanted() const {
    return Positions(size + zeros_before + zeros_after, reach, stride, before, after, ceil_mode);
  }
};

// The same axis with one padding on both sides.
struct Fit {
  int64_t padding = 0;
  int64_t zeros_before = 0, zeros_after = 0;
  int64_t first = 0;      // position of the first window of ONNX
  int64_t positions = 0;  // of the layer
};

// The means by which the layer may have ONNX's windows.
struct Means {
  bool ceil_mode = false;
  bool cuts = false;  // has more windows, which are cut off
};

// Whether the layer has ONNX's windows, perhaps among others.
bool HasWindows(const Fit& fit, int64_t wanted, const Means& means) {
  if (means.cuts) return fit.positions >= fit.first + wanted;
  return fit.first == 0 && fit.positions == wanted;
}

// The layer's windows begin where ONNX's do, or a number of strides before.
std::optional<Fit> FitWithoutZeros(const Axis& axis, const Means& means) {
  const auto positions = [&](int64_t padding) {
    return Positions(axis.size, axis.reach, axis.stride, padding, padding, means.ceil_mode);
  };
  const int64_t wanted = axis.Wanted();
  // A stride more of padding adds a window before the image and one behind it.
  const int64_t first = std::max<int64_t>(0, wanted - positions(axis.before));
  const int64_t padding = axis.before + first * axis.stride;
  const Fit fit = {.padding = padding, .first = first, .positions = positions(padding)};
  if (2 * padding > axis.reach || !HasWindows(fit, wanted, means)) return std::nullopt;
  // Windows that are cut off must have a result, too.
  const bool computes =
      !means.cuts || AllHoldPixels(axis.size, fit.positions, axis.stride, padding, axis.dilation);
  return computes ? std::optional(fit) : std::nullopt;
}

// The padding is the layer's. If the two sides differ, the layer has what both have in common, and
// the image has the rest.
std::optional<Fit> FitWithZeros(const Axis& axis, const FitOptions& options, const Means& means) {
  const bool is_counted = options.outside == Outside::kCountedZeros;
  const int64_t before = axis.before + axis.zeros_before;
  const int64_t after = axis.after + axis.zeros_after;
  const int64_t most = is_counted ? axis.reach / 2 : before;  // padding that the layer can have
  const int64_t wanted = axis.Wanted();
  const int64_t last_end = (wanted - 1) * axis.stride + axis.reach - before;
  const auto with = [&](int64_t padding, int64_t zeros_before, int64_t zeros_after) {
    const int64_t size = axis.size + zeros_before + zeros_after;
    return Fit{
        .padding = padding,
        .zeros_before = zeros_before,
        .zeros_after = zeros_after,
        .positions = Positions(size, axis.reach, axis.stride, padding, padding, means.ceil_mode)};
  };
  // A mean counts the pixels up to the end of the padding.
  const auto counted = [&](int64_t padded_after) {
    return is_counted ? std::min(last_end, axis.size + padded_after) : last_end;
  };
  const auto fits = [&](const Fit& fit) {
    return fit.padding <= most && HasWindows(fit, wanted, means) &&
           counted(fit.zeros_after + fit.padding) == counted(after);
  };
  if (const Fit plain = with(before, 0, 0); fits(plain)) return plain;
  const int64_t even = std::min({before, after, most});
  const Fit surrounded = with(even, before - even, after - even);
  return options.may_add_zeros && fits(surrounded) ? std::optional(surrounded) : std::nullopt;
}

std::optional<Fit> FitAxis(const Axis& axis, const FitOptions& options, const Means& means) {
  if (axis.Wanted() <= 0) {
    const int64_t padding = axis.before + axis.zeros_before;
    if (padding != axis.after + axis.zeros_after) return std::nullopt;
    return Fit{.padding = padding};
  }
  if (options.outside == Outside::kNothing) return FitWithoutZeros(axis, means);
  return FitWithZeros(axis, options, means);
}

Axis AxisOf(int i, int64_t size, const OnnxWindow& window, const Padding& zeros) {
  const auto at = static_cast<size_t>(i);
  return {.size = size,
          .reach = window.Reach(i),
          .stride = window.stride[i],
          .dilation = window.dilation[i],
          .zeros_before = zeros.before[at],
          .zeros_after = zeros.after[at],
          .before = window.padding.before[at],
          .after = window.padding.after[at],
          .ceil_mode = window.ceil_mode};
}

// All means that the layer may use, the simplest first.
std::vector<Means> AllMeans(const OnnxWindow& window, const FitOptions& options) {
  if (options.outside == Outside::kZeros) return {Means{}};
  const bool first = options.keeps_ceil_mode && window.ceil_mode;
  return {{.ceil_mode = first},
          {.ceil_mode = !first},
          {.ceil_mode = first, .cuts = true},
          {.ceil_mode = !first, .cuts = true}};
}

}  // namespace

int64_t Positions(int64_t size, int64_t reach, int64_t stride, int64_t before, int64_t after,
                  bool ceil_mode) {
  if (ceil_mode) return CeilPositions(size, reach, stride, before, after);
  const int64_t slack = size + before + after - reach;
  return slack < 0 ? 0 : slack / stride + 1;
}

ZeroPad ZerosOf(const Padding& padding, int axes) {
  const auto at = [&](const std::array<int64_t, kMaxSpatialAxes>& side, int from_last) {
    return from_last < axes ? side[static_cast<size_t>(axes - 1 - from_last)] : 0;
  };
  return {.top = at(padding.before, 1),
          .left = at(padding.before, 0),
          .bottom = at(padding.after, 1),
          .right = at(padding.after, 0),
          .front = at(padding.before, 2),
          .back = at(padding.after, 2)};
}

Padding PaddingOf(const ZeroPad& zeros, int axes) {
  const std::array<int64_t, kMaxSpatialAxes> before = {zeros.front, zeros.top, zeros.left};
  const std::array<int64_t, kMaxSpatialAxes> after = {zeros.back, zeros.bottom, zeros.right};
  Padding padding;
  std::copy(before.end() - axes, before.end(), padding.before.begin());
  std::copy(after.end() - axes, after.end(), padding.after.begin());
  return padding;
}

std::optional<EvenWindow> FitWindow(absl::Span<const int64_t> image, const OnnxWindow& window,
                                    const FitOptions& options) {
  for (const Means& means : AllMeans(window, options)) {
    Padding zeros;
    std::vector<int64_t> padding, wanted, first;
    for (size_t i = 0; i < image.size(); ++i) {
      const Axis axis = AxisOf(static_cast<int>(i), image[i], window, options.pad);
      const std::optional<Fit> fit = FitAxis(axis, options, means);
      if (!fit.has_value()) break;
      padding.push_back(fit->padding);
      wanted.push_back(axis.Wanted());
      first.push_back(fit->first);
      zeros.before[i] = fit->zeros_before;
      zeros.after[i] = fit->zeros_after;
    }
    if (padding.size() < image.size()) continue;
    EvenWindow even = {.window = {.kernel = window.kernel,
                                  .stride = window.stride,
                                  .padding = Extents::Of(padding),
                                  .dilation = window.dilation},
                       .ceil_mode = means.ceil_mode,
                       .zeros = ZerosOf(zeros, static_cast<int>(image.size()))};
    if (means.cuts) even.crop = {.size = Extents::Of(wanted), .offset = Extents::Of(first)};
    return even;
  }
  return std::nullopt;
}

}  // namespace neap::nets

#include "neap/nets/onnx/even_window.h"

#include <algorithm>
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

// What the layer may do.
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
  // Those that are cut off must have a result, too.
  const bool computes =
      !means.cuts || AllHoldPixels(axis.size, fit.positions, axis.stride, padding, axis.dilation);
  return computes ? std::optional(fit) : std::nullopt;
}

// The padding is that of the layer, or, if that is not the same, the layer has what both sides have
// and the image the rest.
std::optional<Fit> FitWithZeros(const Axis& axis, const FitOptions& options, const Means& means) {
  const bool is_counted = options.outside == Outside::kCountedZeros;
  const int64_t before = axis.before + axis.zeros_before;
  const int64_t after = axis.after + axis.zeros_after;
  const int64_t most = is_counted ? axis.reach / 2 : before;  // that the layer can have
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

struct Sides {
  int64_t before, after;
};

Axis AxisOf(int64_t Extent2d::*axis, Extent2d image, const OnnxWindow& window, Sides padding,
            Sides zeros) {
  return {.size = image.*axis,
          .reach = window.reach().*axis,
          .stride = window.stride.*axis,
          .dilation = window.dilation.*axis,
          .zeros_before = zeros.before,
          .zeros_after = zeros.after,
          .before = padding.before,
          .after = padding.after,
          .ceil_mode = window.ceil_mode};
}

// What the layer may do, the simplest first.
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

std::optional<EvenWindow> FitWindow(Extent2d image, const OnnxWindow& window,
                                    const FitOptions& options) {
  const auto& [top, left, bottom, right] = window.padding;
  const Padding& pad = options.pad;
  const Axis rows = AxisOf(&Extent2d::h, image, window, {top, bottom}, {pad.top, pad.bottom});
  const Axis columns = AxisOf(&Extent2d::w, image, window, {left, right}, {pad.left, pad.right});
  for (const Means& means : AllMeans(window, options)) {
    const std::optional<Fit> h = FitAxis(rows, options, means);
    const std::optional<Fit> w = FitAxis(columns, options, means);
    if (!h.has_value() || !w.has_value()) continue;
    EvenWindow even = {.window = {.kernel = window.kernel,
                                  .stride = window.stride,
                                  .padding = {h->padding, w->padding},
                                  .dilation = window.dilation},
                       .ceil_mode = means.ceil_mode,
                       .zeros = {.top = h->zeros_before,
                                 .left = w->zeros_before,
                                 .bottom = h->zeros_after,
                                 .right = w->zeros_after}};
    if (means.cuts)
      even.crop = {.size = {rows.Wanted(), columns.Wanted()}, .offset = {h->first, w->first}};
    return even;
  }
  return std::nullopt;
}

}  // namespace neap::nets

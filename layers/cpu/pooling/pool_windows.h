// The windows of a pooling, for loops over them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "neap/core/base/tensor.h"
#include "neap/layers/cpu/strides.h"

namespace neap::cpu {

// The part of a window along one axis that is inside the image: kernel positions [begin, end), the
// image position of kernel position 0, and the distance between them.
struct Span {
  int64_t origin, begin, end, dilation;
  // The image position of a kernel position.
  int64_t At(int64_t position) const { return origin + position * dilation; }
};

// The number of kernel positions from `origin` on that are before `end`, if that is behind it.
inline int64_t PositionsBefore(int64_t end, int64_t origin, int64_t kernel, int64_t dilation) {
  return std::min(kernel, (end - origin + dilation - 1) / dilation);
}

inline Span ClippedSpan(int64_t position, int64_t stride, int64_t padding, int64_t dilation,
                        int64_t kernel, int64_t size) {
  const int64_t origin = position * stride - padding;
  const int64_t begin = origin < 0 ? PositionsBefore(0, origin, kernel, dilation) : 0;
  return {origin, begin, PositionsBefore(size, origin, kernel, dilation), dilation};
}

// A window and the channel in which it is. A window over an image has one plane.
struct PoolWindow {
  int64_t first;  // the offset of its channel's first element in its image
  int64_t channel;
  Span planes, rows, columns;
};

// Calls f(offset in y of channel 0 of image 0, planes, rows, columns) for every position of the
// window, in memory order.
template <typename Pool, typename F>
void ForEachPosition(const Pool& layer, const Shape& x, const TensorSpec& y, F f) {
  const Strides out = StridesOf(y);
  const int axes = x.spatial_axes();
  for (int64_t k = 0; k < y.shape.d(); ++k) {
    const Span planes = ClippedSpan(k, layer.stride.d(axes, 1), layer.padding.d(axes, 0),
                                    layer.dilation.d(axes, 1), layer.kernel.d(axes, 1), x.d());
    for (int64_t i = 0; i < y.shape.h(); ++i) {
      const Span rows = ClippedSpan(i, layer.stride.h(), layer.padding.h(), layer.dilation.h(),
                                    layer.kernel.h(), x.h());
      for (int64_t j = 0; j < y.shape.w(); ++j) {
        const Span columns = ClippedSpan(j, layer.stride.w(), layer.padding.w(), layer.dilation.w(),
                                         layer.kernel.w(), x.w());
        f(k * out.d + i * out.h + j * out.w, planes, rows, columns);
      }
    }
  }
}

// Calls f(output offset in y, window) for every output, in y's memory order. `layer` has kernel,
// stride, padding and dilation.
template <typename Pool, typename F>
void ForEachWindow(const Pool& layer, const TensorSpec& x, const TensorSpec& y, F f) {
  const Strides in = StridesOf(x);
  const Strides out = StridesOf(y);
  const bool channels_last = y.layout == Layout::kChannelsLast;
  const int64_t outer = channels_last ? 1 : y.shape.c();
  const int64_t inner = channels_last ? y.shape.c() : 1;
  for (int64_t n = 0; n < y.shape.n(); ++n) {
    for (int64_t co = 0; co < outer; ++co) {
      ForEachPosition(layer, x.shape, y, [&](int64_t at, Span planes, Span rows, Span columns) {
        for (int64_t c = co; c < co + inner; ++c) {
          f(n * out.n + c * out.c + at, PoolWindow{n * in.n + c * in.c, c, planes, rows, columns});
        }
      });
    }
  }
}

// Calls f(offset in x, index in the window) for every element of the window that is in the image.
template <typename Pool, typename F>
void ForEachInWindow(const Pool& layer, const PoolWindow& window, const Strides& strides, F f) {
  const auto& [first, channel, planes, rows, columns] = window;
  const int64_t height = layer.kernel.h(), width = layer.kernel.w();
  for (int64_t q = planes.begin; q < planes.end; ++q) {
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      const int64_t row = first + planes.At(q) * strides.d + rows.At(r) * strides.h;
      for (int64_t s = columns.begin; s < columns.end; ++s)
        f(row + columns.At(s) * strides.w, (q * height + r) * width + s);
    }
  }
}

}  // namespace neap::cpu

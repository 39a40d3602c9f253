// The loops of max pooling. The values come from a function of their offset and channel, and the
// maxima go to another one, so kernels that compute their input on the fly share the loops.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "neap/core/base/tensor.h"
#include "neap/layers/cpu/pooling/pool_windows.h"
#include "neap/layers/cpu/strides.h"
#include "neap/layers/pooling.h"

namespace neap::cpu {

struct Maximum {
  float value;
  int64_t index;  // in the window
};

// Calls store(output offset, maximum) for every output, where the maximum is the first largest
// value(offset, channel), or the first NaN if there is one.
template <typename Value, typename Store>
void ForEachMaximum(const MaxPool& layer, const TensorSpec& x, const TensorSpec& y, Value value,
                    Store store) {
  const Strides strides = StridesOf(x);
  ForEachWindow(layer, x, y, [&](int64_t at, const PoolWindow& window) {
    const int64_t line = window.planes.begin * layer.kernel.h() + window.rows.begin;
    Maximum best = {-std::numeric_limits<float>::infinity(),
                    line * layer.kernel.w() + window.columns.begin};
    ForEachInWindow(layer, window, strides, [&](int64_t i, int64_t index) {
      const float v = value(i, window.channel);
      if (!(v <= best.value) && !std::isnan(best.value)) best = {v, index};
    });
    store(at, best);
  });
}

// The same with the ReLU that computes the values: stores y, and the index unless that is null.
template <typename Value>
void PooledRelu(const MaxPool& layer, const TensorSpec& x, const TensorSpec& y_spec, Value value,
                float* y, uint8_t* index) {
  ForEachMaximum(layer, x, y_spec, value, [=](int64_t at, const Maximum& max) {
    y[at] = max.value;
    if (index != nullptr)
      index[at] = max.value <= 0 ? kNotPositive : static_cast<uint8_t>(max.index);
  });
}

// Adds the gradient of every output to that of the maximum in its window, except where the index is
// kNotPositive and `relu` is set. Overwrites dx.
template <typename Index>
void ScatterToMaxima(const MaxPool& layer, const TensorSpec& x, const TensorSpec& y,
                     const float* dy, const Index* index, bool relu, float* dx) {
  const Strides strides = StridesOf(x);
  const int64_t depth = layer.kernel.d(x.shape.spatial_axes(), 1);
  const int64_t height = layer.kernel.h(), width = layer.kernel.w();
  std::fill_n(dx, x.elements(), 0.0F);
  ForEachWindow(layer, x, y, [&](int64_t at, const PoolWindow& window) {
    if (relu && index[at] == kNotPositive) return;
    const int64_t line = index[at] / width;                // of the window
    const int64_t plane = depth == 1 ? 0 : line / height;  // divisions take most of the time
    const int64_t q = window.planes.At(plane);
    const int64_t r = window.rows.At(line - plane * height);
    const int64_t s = window.columns.At(index[at] % width);
    dx[window.first + q * strides.d + r * strides.h + s * strides.w] += dy[at];
  });
}

}  // namespace neap::cpu

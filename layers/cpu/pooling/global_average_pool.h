// The loops of global average pooling. The values come from a function of their offset and channel,
// so kernels that compute their input on the fly share the loop.
#pragma once

#include <algorithm>
#include <cstdint>

#include "neap/core/base/tensor.h"
#include "neap/layers/cpu/norm/channel_rows.h"

namespace neap::cpu {

// The mean of which an element is a part.
class ImageMeans {
 public:
  explicit ImageMeans(const TensorSpec& x) : rows_(ChannelRowsOf(x)) {}

  // The place among the means of element `i`, whose channel is c.
  int64_t At(int64_t i, int64_t c) const {
    return rows_.channels_last ? i / (rows_.pixels * rows_.channels) * rows_.channels + c
                               : i / rows_.pixels;
  }
  // The gradient of an element, of that of its mean.
  float Gradient(const float* dy, int64_t i, int64_t c) const { return Gradient(dy[At(i, c)]); }
  float Gradient(float of_mean) const { return of_mean / static_cast<float>(rows_.pixels); }
  // Calls apply(offset, c, At(offset, c)) for every element, in memory order.
  template <typename Apply>
  void ForEach(Apply apply) const {
    const int64_t image = rows_.pixels * rows_.channels;
    for (int64_t n = 0; n < rows_.images; ++n) {
      const ChannelRows one = {1, rows_.channels, rows_.pixels, rows_.channels_last};
      ForEachElement(one, [&](int64_t offset, int64_t c) {
        apply(n * image + offset, c, n * rows_.channels + c);
      });
    }
  }
  // y = the means of value(offset, c).
  template <typename Value>
  void Average(Value value, float* y) const {
    const int64_t means = rows_.images * rows_.channels;
    std::fill_n(y, means, 0.0F);
    ForEach([&](int64_t i, int64_t c, int64_t mean) { y[mean] += value(i, c); });
    for (int64_t k = 0; k < means; ++k) y[k] /= static_cast<float>(rows_.pixels);
  }

 private:
  ChannelRows rows_;
};

}  // namespace neap::cpu

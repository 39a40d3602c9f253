// The channels of each image or pixel, as losses go through them, in both layouts.
#pragma once

#include <cstdint>

#include "neap/core/base/tensor.h"
#include "neap/core/step/step_signature.h"

namespace neap::cpu {

// The channels of one image or pixel, with a stride of `apart` elements.
template <typename T>
struct Column {
  T* first;
  int64_t apart;
  T& operator[](int64_t c) const { return first[c * apart]; }
};

struct Columns {
  int64_t count, channels, pixels;  // pixels of an image
  bool last;                        // the channels of a pixel are contiguous

  explicit Columns(const TensorSpec& tensor)
      : count(tensor.elements() / tensor.shape.c()),
        channels(tensor.shape.c()),
        pixels(tensor.shape.h() * tensor.shape.w()),
        last(tensor.layout == Layout::kNhwc) {}
  template <typename T>
  Column<T> Of(T* tensor, int64_t i) const {
    if (last) return {tensor + i * channels, 1};
    return {tensor + i / pixels * channels * pixels + i % pixels, pixels};
  }
  // In the whole batch, over which means are.
  int64_t CountInBatch(const StepSignature& signature) const {
    return signature.part.WholeCount(count, count / pixels);
  }
};

}  // namespace neap::cpu

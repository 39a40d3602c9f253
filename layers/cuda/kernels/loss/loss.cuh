// What the kernels of losses have in common: the means over the batch, the channels of each pixel,
// and its label.
#pragma once

#include <cstddef>
#include <cstdint>

#include "neap/core/step/loss_scale.h"
#include "neap/layers/cuda/kernels/block_reduce.cuh"
#include "neap/layers/cuda/kernels/device_math.cuh"
#include "neap/layers/cuda/kernels/loss/loss.h"

namespace neap::kernels {

inline constexpr int32_t kNoLabel = -1;  // core/program/feeds.h

// Sums the losses and the numbers of correct predictions of `parts`. The loss is a mean over
// `terms`.
static __global__ void __launch_bounds__(kThreads)
    Metrics(int count, const float2* parts, float terms, LossMetrics metrics) {
  float loss = 0, correct = 0;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) {
    loss += parts[i].x;
    correct += parts[i].y;
  }
  loss = BlockReduce<false>(loss);
  correct = BlockReduce<false>(correct);
  if (threadIdx.x != 0) return;
  float* const sums = metrics.mean_and_correct;
  sums[0] = (metrics.add ? sums[0] : 0.0F) + loss / terms;
  sums[1] = (metrics.add ? sums[1] : 0.0F) + correct;
}

// The factor of all gradients. A loss scale is a power of two, so the product is exact.
__device__ __forceinline__ float FactorOf(float weight, const LossScale* loss_scale) {
  return loss_scale == nullptr ? weight : weight * loss_scale->scale;
}

// The classes of each pixel, with a stride of `apart` elements.
struct Pixels {
  explicit Pixels(const ChannelShape& s)
      : labels(static_cast<uint32_t>(s.outer * s.inner)),
        classes(static_cast<int>(s.channels)),
        inner(s.inner),
        last(s.channels_last) {}
  __device__ __forceinline__ size_t First(uint32_t i) const {
    if (last) return static_cast<size_t>(i) * classes;
    uint32_t pixel = 0;
    const size_t image = inner.Split(i, pixel);
    return image * classes * inner.divisor + pixel;
  }
  __device__ __forceinline__ size_t Apart() const { return last ? 1 : inner.divisor; }
  uint32_t labels;
  int classes;
  Divider<uint32_t> inner;
  bool last;
};

// The label of each position.
struct LabelOf {
  explicit LabelOf(const Labels& of)
      : labels(of.labels),
        h(of.extents[1]),
        w(of.extents[2]),
        d(of.extents[0]),
        is_finer(of.stride[0] * of.stride[1] * of.stride[2] > 1) {
    for (int axis = 0; axis < 3; ++axis) stride[axis] = static_cast<uint32_t>(of.stride[axis]);
  }
  // Whose place is counted over all images.
  __device__ __forceinline__ int32_t operator()(uint32_t i) const {
    if (!is_finer) return labels[i];
    uint32_t x = 0, y = 0, z = 0;
    const uint32_t row = w.Split(i, x), plane = h.Split(row, y), image = d.Split(plane, z);
    const size_t z_at = (static_cast<size_t>(image) * d.divisor + z) * stride[0] + stride[0] / 2;
    const size_t y_at = (z_at * h.divisor + y) * stride[1] + stride[1] / 2;
    return labels[(y_at * w.divisor + x) * stride[2] + stride[2] / 2];
  }
  const int32_t* labels;
  Divider<uint32_t> h, w, d;
  uint32_t stride[3];
  bool is_finer;
};

// The number of partial sums: one per image, or per block of pixels.
inline int64_t LossParts(const ChannelShape& s) {
  return s.inner == 1 ? s.outer : CeilDiv(s.outer * s.inner, kThreads);
}

// Whether 32-bit indices suffice: for elements, or, with a thread per pixel, for labels.
inline bool Countable(const ChannelShape& s) {
  return Fits32(s.inner == 1 ? s.outer * s.channels : s.outer * s.inner);
}

}  // namespace neap::kernels

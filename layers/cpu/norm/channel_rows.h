// Loops over the elements of an image tensor with the channel of each, in memory order.
#pragma once

#include <algorithm>
#include <cstdint>

#include "neap/core/base/tensor.h"
#include "neap/layers/catalog/step_run.h"

namespace neap::cpu {

// A tensor as rows in memory. NCHW: a row is one channel's plane of one image. NHWC: a row is one
// pixel with all its channels. Every loop therefore has two forms: per-channel numbers are
// constant along a row, or vary along it.
struct ChannelRows {
  int64_t images, channels, pixels;
  bool channels_last;
  int64_t count() const { return images * pixels; }  // elements per channel
};

inline ChannelRows ChannelRowsOf(const TensorSpec& spec) {
  return {spec.shape.n(), spec.shape.c(), spec.shape.positions(),
          spec.layout == Layout::kChannelsLast};
}

// A tensor that is a part of a concatenation along the channels: `rows` are its own, and it has the
// channels [first, first + rows.channels) of `all`.
struct ChannelPart {
  ChannelRows rows;
  int64_t first, all;
  // The row in the concatenation of row r, in NCHW.
  int64_t WholeRow(int64_t r) const { return r / rows.channels * all + first + r % rows.channels; }
};

inline ChannelPart WholeOf(const TensorSpec& spec) {
  return {ChannelRowsOf(spec), 0, spec.shape.c()};
}

// Calls apply(offset, c, whole) for every element, whose channel in the part is c: `offset` is its
// place in the part and `whole` that in the concatenation.
template <typename Apply>
void ForEachElement(const ChannelPart& part, Apply apply) {
  const ChannelRows& rows = part.rows;
  if (rows.channels_last) {
    for (int64_t r = 0; r < rows.count(); ++r) {
      const int64_t begin = r * rows.channels, whole = r * part.all + part.first;
      for (int64_t c = 0; c < rows.channels; ++c) apply(begin + c, c, whole + c);
    }
    return;
  }
  for (int64_t r = 0; r < rows.images * rows.channels; ++r) {
    const int64_t c = r % rows.channels, begin = r * rows.pixels;
    const int64_t whole = part.WholeRow(r) * rows.pixels;
    for (int64_t p = 0; p < rows.pixels; ++p) apply(begin + p, c, whole + p);
  }
}

// Calls apply(offset, c) for every element.
template <typename Apply>
void ForEachElement(const ChannelRows& rows, Apply apply) {
  ForEachElement(ChannelPart{rows, 0, rows.channels},
                 [&](int64_t offset, int64_t c, int64_t) { apply(offset, c); });
}

// Calls apply(offset, i) for every element, where i = image * channels + channel.
template <typename Apply>
void ForEachOfImages(const ChannelRows& rows, Apply apply) {
  if (rows.channels_last) {
    for (int64_t r = 0; r < rows.count(); ++r) {
      const int64_t first = r / rows.pixels * rows.channels;
      for (int64_t c = 0; c < rows.channels; ++c) apply(r * rows.channels + c, first + c);
    }
    return;
  }
  for (int64_t r = 0; r < rows.images * rows.channels; ++r) {
    for (int64_t i = r * rows.pixels; i < (r + 1) * rows.pixels; ++i) apply(i, r);
  }
}

// result[c] = the sum of value(offset) over the channel c. `sums` has room for all channels.
template <typename Value>
void SumChannels(const ChannelRows& rows, Value value, double* sums, float* result) {
  std::fill_n(sums, rows.channels, 0.0);
  ForEachElement(rows, [=](int64_t i, int64_t c) { sums[c] += static_cast<double>(value(i)); });
  std::transform(sums, sums + rows.channels, result,
                 [](double sum) { return static_cast<float>(sum); });
}

// Writes the sums, or adds them to what is there, if the step has the operand.
inline void StoreSums(const StepRun& step, Operand operand, const double* sums) {
  float* const to = step.Find<float>(operand);
  if (to == nullptr) return;
  const bool adds = step.signature.Accumulates(operand);
  std::transform(sums, sums + step.Elements(operand), to, to, [adds](double sum, float before) {
    const auto value = static_cast<float>(sum);
    return adds ? before + value : value;
  });
}

inline float ReluOf(float x) { return x <= 0 ? 0 : x; }  // NaN passes

}  // namespace neap::cpu

// Resizing of a part of an image to the floats that a network reads: a separable triangle filter,
// which widens with the reduction, so that a smaller image has no aliasing.
//
// These are the filter and the positions of Pillow's and torchvision's bilinear resize with
// antialias. They round to 8 bits after each axis; here values stay floats.
//
//   const Taps columns({.extent = 500, .outputs = 224, .clip_end = 500});
//   const Taps rows({.extent = 375, .outputs = 224, .clip_end = 375});
//   Resample(decoded, rows, columns, {{1, 1, 1}, {0, 0, 0}}, planes);  // from 0 to 255
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "neap/core/vision/image/decoder.h"

namespace neap {

// The source pixels that an axis of the result covers, in their coordinates: pixel i is the
// interval [i, i + 1).
struct Axis {
  double begin = 0;
  double extent = 0;
  int64_t outputs = 0;
  // Pixels outside of [clip_begin, clip_end) are not used; the others' weights add up to 1.
  int64_t clip_begin = 0;
  int64_t clip_end = std::numeric_limits<int64_t>::max();
  bool mirrored = false;
};

// The weights of the source pixels for each output.
class Taps {
 public:
  explicit Taps(const Axis& axis);
  int64_t outputs() const { return static_cast<int64_t>(firsts_.size()); }
  int64_t first(int64_t output) const { return firsts_[static_cast<size_t>(output)]; }
  // The weights of pixels first(output), first(output) + 1, ...
  absl::Span<const float> weights(int64_t output) const;
  // All pixels with a weight: [begin, end).
  int64_t begin() const { return begin_; }
  int64_t end() const { return end_; }

 private:
  std::vector<int64_t> firsts_;
  std::vector<size_t> ends_;  // of each output's weights
  std::vector<float> weights_;
  int64_t begin_ = std::numeric_limits<int64_t>::max();
  int64_t end_ = 0;
};

// A value of 0 to 255 becomes value * factor - shift, for red, green and blue.
struct ByteScale {
  std::array<float, 3> factor;
  std::array<float, 3> shift;
};

// `planes`: the result, 3 x rows x columns. `from` holds all pixels with a weight.
void Resample(const DecodedPart& from, const Taps& rows, const Taps& columns,
              const ByteScale& scale, float* planes);

}  // namespace neap

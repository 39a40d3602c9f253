#include "neap/core/vision/augment.h"

#include <algorithm>

#include "neap/core/base/philox.h"

namespace neap {
namespace {

// Distinct from the streams of Permutation, which are epochs.
constexpr uint64_t kAugmentationStream = uint64_t{1} << 63;

// In [-max_shift, max_shift].
int64_t Shift(uint32_t bits, int64_t max_shift) {
  return static_cast<int64_t>(bits % static_cast<uint64_t>(2 * max_shift + 1)) - max_shift;
}

}  // namespace

Augmentation DrawAugmentation(uint64_t seed, int64_t position, int64_t max_shift, bool may_flip) {
  const PhiloxBlock block = Philox(
      {.key = seed, .stream = kAugmentationStream, .position = static_cast<uint64_t>(position)});
  return {.down = Shift(block[0], max_shift),
          .right = Shift(block[1], max_shift),
          .flip = may_flip && (block[2] & 1) == 1};
}

void Augment(const Augmentation& augmentation, const ImageShape& shape, const float* from,
             float* to) {
  std::fill_n(to, shape.elements(), 0.0F);
  const int64_t begin = std::max<int64_t>(0, augmentation.right);
  const int64_t end = std::min(shape.w, shape.w + augmentation.right);
  for (int64_t row = 0; row < shape.c * shape.h; ++row) {
    const int64_t y = row % shape.h - augmentation.down;
    if (y < 0 || y >= shape.h) continue;
    const float* source = from + (row - augmentation.down) * shape.w;
    for (int64_t x = begin; x < end; ++x) {
      const int64_t column = x - augmentation.right;
      to[row * shape.w + x] = source[augmentation.flip ? shape.w - 1 - column : column];
    }
  }
}

}  // namespace neap

// Small random changes of an image that do not change its class: a shift and a mirroring.
#pragma once

#include <cstdint>

#include "neap/core/vision/dataset.h"

namespace neap {

struct Augmentation {
  int64_t down = 0;   // pixels; negative: up
  int64_t right = 0;  // pixels; negative: left
  bool flip = false;  // left to right, before the shift
};

// The change of the image at `position` in the infinite sequence of epochs: a pure function of the
// arguments.
Augmentation DrawAugmentation(uint64_t seed, int64_t position, int64_t max_shift, bool may_flip);

// `from` and `to` are C x H x W and do not overlap. Pixels shifted in from outside are 0.
void Augment(const Augmentation& augmentation, const ImageShape& shape, const float* from,
             float* to);

}  // namespace neap

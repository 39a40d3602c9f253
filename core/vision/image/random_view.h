// The random choices of torchvision's recipe for ImageNet for each image in training: a crop
// (RandomResizedCrop), whether it is mirrored (RandomHorizontalFlip), and changed colours
// (ColorJitter).
//
// Each is a pure function of the seed and of the position of the image in the infinite sequence of
// epochs, so that neither the number of threads nor that of ranks matters, and a resumed run has
// the same images.
#pragma once

#include <array>
#include <cstdint>

#include "neap/core/vision/image/decoder.h"

namespace neap {

struct RandomView {
  uint64_t seed = 0;
  int64_t position = 0;
  float color_jitter = 0;  // brightness, contrast and saturation change by up to this share
};

// 8% to 100% of the area, 3:4 to 4:3 (torchvision.transforms.RandomResizedCrop). A large part in
// the middle, if the image is so long that ten attempts do not find one.
PixelBox DrawCrop(const RandomView& view, const ImageSize& image);
bool DrawMirror(const RandomView& view);

// torchvision.transforms.ColorJitter without hue.
struct ColorChange {
  enum Kind : uint8_t { kBrightness, kContrast, kSaturation };
  std::array<float, 3> factors = {1, 1, 1};  // by kind
  std::array<Kind, 3> order = {kBrightness, kContrast, kSaturation};
};
ColorChange DrawColors(const RandomView& view);
// `planes`: 3 planes of `pixels` values from 0 to 1, and so they stay.
void ChangeColors(const ColorChange& change, int64_t pixels, float* planes);

}  // namespace neap

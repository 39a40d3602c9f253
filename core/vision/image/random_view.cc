#include "neap/core/vision/image/random_view.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "neap/core/base/philox.h"

namespace neap {
namespace {

constexpr int kAttempts = 10;
constexpr double kMinArea = 0.08;
constexpr double kMaxRatio = 4.0 / 3;  // of width to height; its inverse is the least

// Distinct from the streams of Permutation, which are epochs, and from that of Augment (2^63).
// Stream kStreams + i, for i below kAttempts, is that of a crop's attempt.
constexpr uint64_t kStreams = (uint64_t{1} << 63) + 1;
constexpr uint64_t kMirrorStream = kStreams + kAttempts;
constexpr uint64_t kColorStream = kMirrorStream + 1;
constexpr uint64_t kOrderStream = kColorStream + 1;

PhiloxBlock Draw(const RandomView& view, uint64_t stream) {
  return Philox(
      {.key = view.seed, .stream = stream, .position = static_cast<uint64_t>(view.position)});
}

double Uniform(uint32_t bits, double least, double most) {
  return least + (most - least) * static_cast<double>(ToUnitFloat(bits));
}

// In [0, count).
int64_t Index(uint32_t bits, int64_t count) {
  return static_cast<int64_t>((uint64_t{bits} * static_cast<uint64_t>(count)) >> 32);
}

PixelBox BoxAt(int64_t left, int64_t top, int64_t width, int64_t height) {
  return {.left = left, .top = top, .right = left + width, .bottom = top + height};
}

PixelBox CentralCrop(const ImageSize& image) {
  const auto width = static_cast<double>(image.width);
  const auto height = static_cast<double>(image.height);
  ImageSize crop = image;
  if (width / height < 1 / kMaxRatio) {
    crop.height = std::clamp<int64_t>(std::llround(width * kMaxRatio), 1, image.height);
  } else if (width / height > kMaxRatio) {
    crop.width = std::clamp<int64_t>(std::llround(height * kMaxRatio), 1, image.width);
  }
  return BoxAt((image.width - crop.width) / 2, (image.height - crop.height) / 2, crop.width,
               crop.height);
}

float Grey(float red, float green, float blue) {
  return 0.2989F * red + 0.587F * green + 0.114F * blue;
}

float Between(float value, float other, float share) {
  return std::min(std::max(other + share * (value - other), 0.0F), 1.0F);
}

float MeanGrey(int64_t pixels, const float* planes) {
  double sum = 0;
  for (int64_t i = 0; i < pixels; ++i)
    sum += static_cast<double>(Grey(planes[i], planes[pixels + i], planes[2 * pixels + i]));
  return static_cast<float>(sum / static_cast<double>(pixels));
}

}  // namespace

PixelBox DrawCrop(const RandomView& view, const ImageSize& image) {
  const double area = static_cast<double>(image.width) * static_cast<double>(image.height);
  for (uint64_t attempt = 0; attempt < kAttempts; ++attempt) {
    const PhiloxBlock random = Draw(view, kStreams + attempt);
    const double target = area * Uniform(random[0], kMinArea, 1);
    const double ratio = std::exp(Uniform(random[1], -std::log(kMaxRatio), std::log(kMaxRatio)));
    const int64_t width = std::llround(std::sqrt(target * ratio));
    const int64_t height = std::llround(std::sqrt(target / ratio));
    if (width < 1 || width > image.width || height < 1 || height > image.height) continue;
    return BoxAt(Index(random[2], image.width - width + 1),
                 Index(random[3], image.height - height + 1), width, height);
  }
  return CentralCrop(image);
}

bool DrawMirror(const RandomView& view) { return (Draw(view, kMirrorStream)[0] & 1) == 1; }

ColorChange DrawColors(const RandomView& view) {
  const auto jitter = static_cast<double>(view.color_jitter);
  const PhiloxBlock factors = Draw(view, kColorStream);
  const PhiloxBlock swaps = Draw(view, kOrderStream);
  ColorChange change;
  for (size_t i = 0; i < 3; ++i) {
    change.factors[i] =
        static_cast<float>(Uniform(factors[i], std::max(0.0, 1 - jitter), 1 + jitter));
  }
  for (int64_t i = 2; i > 0; --i) {  // Fisher-Yates
    const auto at = static_cast<size_t>(i);
    std::swap(change.order[at], change.order[static_cast<size_t>(Index(swaps[at], i + 1))]);
  }
  return change;
}

void ChangeColors(const ColorChange& change, int64_t pixels, float* planes) {
  for (const ColorChange::Kind kind : change.order) {
    const float factor = change.factors[kind];
    if (kind == ColorChange::kSaturation) {
      float* const red = planes;
      float* const green = planes + pixels;
      float* const blue = planes + 2 * pixels;
      for (int64_t i = 0; i < pixels; ++i) {
        const float grey = Grey(red[i], green[i], blue[i]);
        red[i] = Between(red[i], grey, factor);
        green[i] = Between(green[i], grey, factor);
        blue[i] = Between(blue[i], grey, factor);
      }
      continue;
    }
    const float other = kind == ColorChange::kContrast ? MeanGrey(pixels, planes) : 0.0F;
    for (int64_t i = 0; i < 3 * pixels; ++i) planes[i] = Between(planes[i], other, factor);
  }
}

}  // namespace neap

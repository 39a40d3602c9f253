#include "neap/core/vision/image.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace neap {
namespace {

bool CanConvert(int64_t source_channels, int64_t target_channels) {
  return source_channels == target_channels || source_channels == 1 ||
         (source_channels == 3 && target_channels == 1);
}

bool IsImage(const ImageShape& shape) {
  return shape.c > 0 && shape.h > 0 && shape.w > 0 && shape.d == 1;
}

}  // namespace

absl::StatusOr<ImageTransform> ImageTransform::Create(ImageShape source, ImageShape target,
                                                      std::vector<ChannelScale> scales) {
  if (!IsImage(source) || !IsImage(target) || !CanConvert(source.c, target.c)) {
    return absl::InvalidArgumentError(absl::StrCat("cannot make images of ", ToString(target),
                                                   " from images of ", ToString(source)));
  }
  return ImageTransform(source, target, std::move(scales));
}

ImageTransform::ImageTransform(ImageShape source, ImageShape target,
                               std::vector<ChannelScale> scales)
    : source_(source),
      target_(target),
      scales_(std::move(scales)),
      rows_(Taps(source.h, target.h)),
      columns_(Taps(source.w, target.w)) {}

std::vector<ImageTransform::Tap> ImageTransform::Taps(int64_t source, int64_t target) {
  std::vector<Tap> taps;
  const double step = static_cast<double>(source) / static_cast<double>(target);
  for (int64_t t = 0; t < target; ++t) {
    const double position = std::max(0.0, (static_cast<double>(t) + 0.5) * step - 0.5);
    const int64_t low = std::min(static_cast<int64_t>(position), source - 1);
    taps.push_back({.low = low,
                    .high = std::min(low + 1, source - 1),
                    .weight = static_cast<float>(position - static_cast<double>(low))});
  }
  return taps;
}

void ImageTransform::Apply(absl::Span<const uint8_t> bytes, float* pixels) const {
  const std::vector<float> planes = Normalise(bytes);
  const bool repeats = planes.size() == static_cast<size_t>(source_.h * source_.w);
  for (int64_t c = 0; c < target_.c; ++c) {
    float* plane = pixels + c * target_.h * target_.w;
    if (repeats && c > 0) {
      std::copy_n(pixels, target_.h * target_.w, plane);
    } else {
      Resize(planes.data() + c * source_.h * source_.w, plane);
    }
  }
}

// Planes of the source's size: one for each source channel, or a single one if colour becomes grey.
std::vector<float> ImageTransform::Normalise(absl::Span<const uint8_t> bytes) const {
  const bool to_grey = source_.c > target_.c;
  const size_t plane = static_cast<size_t>(source_.h * source_.w);
  std::vector<float> planes(to_grey ? plane : plane * scales_.size(), 0.0F);
  for (size_t c = 0; c < scales_.size(); ++c) {
    const float share = to_grey ? kLuma[c] : 1.0F;
    const float factor = share / (255.0F * scales_[c].deviation);
    const float shift = share * scales_[c].mean / scales_[c].deviation;
    float* out = planes.data() + (to_grey ? 0 : c * plane);
    for (size_t i = 0; i < plane; ++i) {
      out[i] += static_cast<float>(bytes[c * plane + i]) * factor - shift;
    }
  }
  return planes;
}

void ImageTransform::Resize(const float* plane, float* pixels) const {
  for (const Tap& row : rows_) {
    const float* low = plane + row.low * source_.w;
    const float* high = plane + row.high * source_.w;
    for (const Tap& column : columns_) {
      const float top = low[column.low] + column.weight * (low[column.high] - low[column.low]);
      const float bottom =
          high[column.low] + column.weight * (high[column.high] - high[column.low]);
      *pixels++ = top + row.weight * (bottom - top);
    }
  }
}

}  // namespace neap

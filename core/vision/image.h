// Conversion of the bytes of a stored image to the floats that a network reads: normalised, then
// converted to the network's channels, then to its size.
//
// Images are resized bilinearly with half-pixel centres (PyTorch's interpolate,
// align_corners=False, no antialiasing). Everything that does not depend on the pixels' values is
// computed once, since the rest runs for every image of a run.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "neap/core/vision/dataset.h"

namespace neap {

// The normalisation of one source channel, for pixels in [0, 1]: (pixel - mean) / deviation.
struct ChannelScale {
  float mean = 0;
  float deviation = 1;
};

// Grey of red, green and blue as in ITU-R 601.
inline constexpr std::array<float, 3> kLuma = {0.299F, 0.587F, 0.114F};

// *Threads*: safe from several at once.
class ImageTransform {
 public:
  // The target has as many channels as the source, or: from 1 to n, grey is repeated; from 3 to 1,
  // red, green and blue are weighted as in ITU-R 601. Errors: INVALID_ARGUMENT for any other pair,
  // and for extents below 1.
  static absl::StatusOr<ImageTransform> Create(ImageShape source, ImageShape target,
                                               std::vector<ChannelScale> scales);
  const ImageShape& target() const { return target_; }
  // `bytes`: C x H x W of the source. `pixels`: C x H x W of the target.
  void Apply(absl::Span<const uint8_t> bytes, float* pixels) const;

 private:
  // Target position t is (1 - weight) * source[low] + weight * source[high].
  struct Tap {
    int64_t low;
    int64_t high;
    float weight;
  };
  ImageTransform(ImageShape source, ImageShape target, std::vector<ChannelScale> scales);
  static std::vector<Tap> Taps(int64_t source, int64_t target);
  std::vector<float> Normalise(absl::Span<const uint8_t> bytes) const;
  void Resize(const float* plane, float* pixels) const;

  ImageShape source_;
  ImageShape target_;
  std::vector<ChannelScale> scales_;
  std::vector<Tap> rows_;
  std::vector<Tap> columns_;
};

}  // namespace neap

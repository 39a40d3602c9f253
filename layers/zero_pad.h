// ZeroPad: zeros around each image, as torch.nn.ZeroPad2d; H and W grow, N and C stay. Sequences
// are padded on the left and on the right, volumes also in front and at the back. It lets a
// convolution or pooling have other padding above than below, or left than right.
//
//   step           reads  writes
//   forward        x      y       0 outside x
//   backward_data  dy     dx      the rectangle of dy in which x was
#pragma once

#include "neap/core/step/layer.h"
#include "neap/core/step/window.h"

namespace neap {

struct ZeroPad {
  static constexpr std::string_view kType = "zero_pad";
  // Positions of zeros on each side, at most kMaxWindowExtent.
  int64_t top = 0;
  int64_t left = 0;
  int64_t bottom = 0;
  int64_t right = 0;
  int64_t front = 0;  // of volumes
  int64_t back = 0;
  // Where x begins in y. Of images and sequences, the first numbers are 0.
  constexpr Extents offset() const { return {front, top, left}; }
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  // front and back only if they are set.
  std::string Parameters() const;
  friend bool operator==(const ZeroPad&, const ZeroPad&) = default;
};

}  // namespace neap

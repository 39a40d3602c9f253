// Crop: a rectangle of each image; H and W shrink, N and C stay. It brings two branches to one size
// after one of them has lost or gained a border.
//
//   step           reads  writes
//   forward        x      y
//   backward_data  dy     dx      0 outside the rectangle
#pragma once

#include "neap/core/step/layer.h"
#include "neap/core/step/window.h"

namespace neap {

struct Crop {
  static constexpr std::string_view kType = "crop";
  Extent2d size = 1;
  Extent2d offset = 0;  // the rectangle's first row and column
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;
  friend bool operator==(const Crop&, const Crop&) = default;
};

}  // namespace neap

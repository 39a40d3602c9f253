// Crop: a rectangle of each image, or a part of each sequence or volume; N and C stay. It brings
// two branches to one size after one of them has lost or gained a border.
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
  Extents size = 1;
  Extents offset = 0;  // the first row and column of the rectangle
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;
  friend bool operator==(const Crop&, const Crop&) = default;
};

}  // namespace neap

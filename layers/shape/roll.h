// Roll: the positions of each image moved cyclically, as torch.roll along the spatial axes: what
// leaves at one end comes in at the other. Swin transformers shift their windows so.
//
//   step           reads  writes
//   forward        x      y       y[p] = x[(p - shift) modulo the extent] along each axis
//   backward_data  dy     dx      the inverse
#pragma once

#include <string>

#include "neap/core/step/layer.h"
#include "neap/core/step/window.h"

namespace neap {

// A shift may be negative, or larger than the extent. INVALID_ARGUMENT unless it has a number for
// each spatial axis, or one for all, none beyond 2^31 either way.
struct Roll {
  static constexpr std::string_view kType = "roll";
  Extents shift = 0;
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;
  friend bool operator==(const Roll&, const Roll&) = default;
};

}  // namespace neap

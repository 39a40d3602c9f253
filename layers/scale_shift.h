// ScaleShift: y = scale * x + shift, with two numbers that training does not change.
//
//   step           reads  writes   in place
//   forward        x      y        y over x
//   backward_data  dy     dx       dx over dy   dx = scale * dy
#pragma once

#include <string>

#include "neap/core/step/layer.h"

namespace neap {

// INVALID_ARGUMENT for numbers that are not finite.
struct ScaleShift {
  static constexpr std::string_view kType = "scale_shift";
  float scale = 1;
  float shift = 0;
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;
  friend bool operator==(const ScaleShift&, const ScaleShift&) = default;
};

}  // namespace neap

// Local response normalisation across channels, as torch.nn.LocalResponseNorm:
//   s_c = k + alpha / size * sum over the `size` channels around c of x^2;  y_c = x_c * s_c^-beta
//
//   step           reads  writes  in place
//   forward        x      y
//   backward_data  x, dy  dx      dx over dy
#pragma once

#include "neap/core/step/layer.h"

namespace neap {

struct LocalResponseNorm {
  static constexpr std::string_view kType = "lrn";
  int64_t size = 5;  // odd
  float alpha = 1e-4F;
  float beta = 0.75F;
  float k = 1.0F;
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;
  friend bool operator==(const LocalResponseNorm&, const LocalResponseNorm&) = default;
};

}  // namespace neap

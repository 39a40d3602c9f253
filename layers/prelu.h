// Parametric ReLU (He et al., 2015), as torch.nn.PReLU: y = x where x > 0, else weight * x, with
// one weight, the slope, for all channels, or one for each.
//
//   step           reads          writes       in place
//   forward        x, weight      y            y over x
//   backward_data  x, weight, dy  dx, dweight  dx over dy
//
// dx is dy where x > 0, else weight * dy; dweight is the sum of x * dy over all other elements, in
// fp32 or better and in a fixed order. Backward accumulates natively: it adds to a dweight that
// already holds a partial sum, such as that of other images. It reads x, because a slope may become
// negative or 0, and then y does not tell x.
//
// params: 0 weight {slopes}, fp32 whatever the type of x, which begins at 0.25.
//
//   x = net.Add("prelu", Prelu{.slopes = 64}, {x});  // x has 64 channels
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "neap/core/step/layer.h"

namespace neap {

// Errors: INVALID_ARGUMENT unless there is one slope, or one for each channel.
struct Prelu {
  static constexpr std::string_view kType = "prelu";
  int64_t slopes = 1;
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;
  friend bool operator==(const Prelu&, const Prelu&) = default;
};

}  // namespace neap

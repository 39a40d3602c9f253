// Dropout: each element is zeroed with `probability`, the others scaled by 1 / (1 - probability).
//
//   step           reads          writes  in place
//   forward        x, iteration   y       y over x
//   backward_data  dy, iteration  dx      dx over dy
//
// The mask is not stored: a counter-based random number of (session seed, layer seed, step, i)
// decides whether element i (in memory order) is dropped (core/base/philox.h, DropoutKeeps), so a
// rerun, another device and a resumed run repeat it. In a sub-batch, i counts the elements of those
// before it too, so the masks are those of the whole batch. In inference the layer copies its
// input.
#pragma once

#include "neap/core/step/layer.h"

namespace neap {

struct Dropout {
  static constexpr std::string_view kType = "dropout";
  float probability = 0.5F;  // in [0, 1)
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;
  friend bool operator==(const Dropout&, const Dropout&) = default;
};

}  // namespace neap

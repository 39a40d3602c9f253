// Permute: the axes behind N in another order, as torch.permute. {N, C, T} becomes {N, T, C}, for
// example.
//
//   step           reads  writes
//   forward        x      y       axis i of y is axis axes[i - 1] of x
//   backward_data  dy     dx      the inverse permutation
//
// It is a copy. A layer whose channels should lie behind the positions in memory, and no others,
// needs none: that is the layout (Layout::kChannelsLast).
//
//   x = net.Add("transposed", Permute{.axes = {2, 1}}, {x});  // {N, C, T} -> {N, T, C}
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "neap/core/step/layer.h"

namespace neap {

// INVALID_ARGUMENT unless `axes` has each of the axes of x from 1, the channels, on once.
struct Permute {
  static constexpr std::string_view kType = "permute";
  std::vector<int64_t> axes = {};
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;
  friend bool operator==(const Permute&, const Permute&) = default;
};

}  // namespace neap

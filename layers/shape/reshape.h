// Reshape: the same elements of each image with other extents, as torch.reshape. Images become
// sequences, {N, C, H, W} -> {N, C, H W}, or vectors (torch.nn.Flatten).
//
//   step           reads  writes  in place, if elements keep their order in memory
//   forward        x      y       y over x
//   backward_data  dy     dx      dx over dy
//
// Elements are numbered as in {N, C, H, W}, whatever the layout. In channels-first they keep their
// order in memory, and in channels-last they do if the number of channels stays, or if both x and y
// have one channel or one position. The step then moves nothing if y
// takes the place of x, which it does unless another layer still needs x. Otherwise it is a copy.
//
//   x = net.Add("tokens", Reshape{.to = {0, -1}}, {x});  // {N, C, H, W} -> {N, C, H W}
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "neap/core/step/layer.h"

namespace neap {

// `to` has the extents of y behind N, of which there are two to four; 0 stands for that of x along
// the same axis, and one may be -1, for what remains. INVALID_ARGUMENT unless y has the elements of
// x, and in channels-last unless the channels of x or of y are a multiple of the other's.
struct Reshape {
  static constexpr std::string_view kType = "reshape";
  std::vector<int64_t> to = {};
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;
  friend bool operator==(const Reshape&, const Reshape&) = default;
};

// Whether the elements of x lie in memory as those of y, its reshape, do.
bool KeepsOrder(const TensorSpec& x, const TensorSpec& y);

}  // namespace neap

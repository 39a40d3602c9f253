// ChannelShuffle: channels in another order, as torch.nn.ChannelShuffle: {N, groups, C / groups, H,
// W} with its groups as the third axis.
//
//   step           reads  writes
//   forward        x      y       channel j * groups + i of y is channel i * (C / groups) + j of x
//   backward_data  dy     dx
//
// Behind a grouped convolution, every group of the next one then reads all of its groups
// (ShuffleNet). A shuffle with C / groups groups is the inverse.
#pragma once

#include <cstdint>
#include <string>

#include "neap/core/step/layer.h"

namespace neap {

// INVALID_ARGUMENT unless the number of channels is a multiple of `groups`.
struct ChannelShuffle {
  static constexpr std::string_view kType = "channel_shuffle";
  int64_t groups = 2;
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;
  friend bool operator==(const ChannelShuffle&, const ChannelShuffle&) = default;
};

}  // namespace neap

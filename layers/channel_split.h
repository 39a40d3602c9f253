// ChannelSplit: the channels of each image in consecutive parts, each an output of its own, as
// torch.split and torch.chunk take them.
//
//   step           reads  writes
//   forward        x      y_0, y_1, ...
//   backward_data  dy_i   dx             0 in the channels of outputs on which no loss depends
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "neap/core/step/layer.h"

namespace neap {

// Output i has channels[i] channels. INVALID_ARGUMENT unless there is at least one output, each has
// at least one channel, and together they have those of the images.
struct ChannelSplit {
  static constexpr std::string_view kType = "channel_split";
  std::vector<int64_t> channels = {};
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;
  friend bool operator==(const ChannelSplit&, const ChannelSplit&) = default;
};

}  // namespace neap

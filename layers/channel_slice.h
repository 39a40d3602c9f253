// ChannelSlice: consecutive channels of each image, as torch.chunk and torch.split take them.
//
//   step           reads  writes
//   forward        x      y
//   backward_data  dy     dx      0 in the other channels
#pragma once

#include <cstdint>
#include <string>

#include "neap/core/step/layer.h"

namespace neap {

// Channels [first, first + count). INVALID_ARGUMENT unless the images have them.
struct ChannelSlice {
  static constexpr std::string_view kType = "channel_slice";
  int64_t first = 0;
  int64_t count = 1;
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;
  friend bool operator==(const ChannelSlice&, const ChannelSlice&) = default;
};

}  // namespace neap

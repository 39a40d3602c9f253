// The channels of each position of a tensor, in both layouts.
#pragma once

#include <cstdint>

#include "neap/core/base/tensor.h"

namespace neap::cpu {

// Positions are counted over all examples: {N, T} in this order.
struct TokenVectors {
  int64_t count, channels, positions;  // positions of an example
  int64_t apart;                       // elements from one channel to the next
  int64_t step;                        // elements from one position to the next of the example

  explicit TokenVectors(const TensorSpec& tensor)
      : count(tensor.elements() / tensor.shape.c()),
        channels(tensor.shape.c()),
        positions(tensor.shape.positions()),
        apart(tensor.layout == Layout::kChannelsLast ? 1 : positions),
        step(tensor.layout == Layout::kChannelsLast ? channels : 1) {}
  // The place of the first channel of position i.
  int64_t First(int64_t i) const {
    return i / positions * positions * channels + i % positions * step;
  }
};

}  // namespace neap::cpu

// A network whose layers have several outputs, and the same network without such layers.
//
// Each of its two blocks is a gated linear unit: the channels of a convolution are halved, and one
// half is multiplied by the sigmoid of the other.
//
//   Session split = Opened(GatedNet({.batch = 8}), *device);
//   Session slices = Opened(GatedNet({.batch = 8, .halving = Halving::kSlices}), *device);
//   CHECK(Train(split, 3) == Train(slices, 3));
#pragma once

#include <cstdint>

#include "neap/core/graph/graph.h"

namespace neap::testing {

enum class Halving : uint8_t {
  kSplit,   // a ChannelSplit
  kSlices,  // two ChannelSlices, which have one output each
};

struct GatedOptions {
  int64_t batch = 8;
  DType dtype = DType::kFp32;
  Layout layout = Layout::kChannelsFirst;
  Halving halving = Halving::kSplit;
  // Parts of the network, whose parameters are among those of the whole.
  bool second_block = true;
  bool gates = true;  // without them, blocks pass their second half on, and nothing reads the first
};

// Takes the batches of MakeBatch() (tests/small_net.h). The layers of block "a" are "a.conv",
// "a.halves", "a.gate" and "a.product"; slices are "a.first" and "a.second".
Graph GatedNet(const GatedOptions& options = {});

}  // namespace neap::testing

// Networks of the papers that no command takes by name.
//
//   const Graph net = SegmentedResNet({3, 4, 6, 3}, /*batch=*/16);
#pragma once

#include <array>
#include <cstdint>

#include "neap/core/graph/graph.h"

namespace neap::apps {

// A ResNet of bottlenecks with the segments between checkpoints that SuperNeurons' Table 1 implies.
// Its counts of extra forwards rise by 5 a block in the speed-centric strategy and by 7 in the
// memory-centric one (84 and 118 for 16 blocks, 169 and 237 for 33): segments of 2, 2 and 1 layers,
// with n and n(n+1)/2 forwards each. The rest has 4 and 6, two more segments of 2. So a block is
//
//   conv bn relu  conv bn relu  conv bn  add       a projection, run first, is a convolution alone
//
// and this network's rest is conv relu maxpool before, and relu avgpool fc after the blocks, one of
// several that fit. The paper does not draw its blocks. torchvision's also have a ReLU behind each
// add, batch norms behind projections, and one in the stem.
Graph SegmentedResNet(const std::array<int64_t, 4>& blocks, int64_t batch);

}  // namespace neap::apps

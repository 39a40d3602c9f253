// LeNet-5 for handwritten digits, in Caffe's well-known variant: 431,080 parameters at 28x28x1.
//
// It is the smallest network with every kind of layer that the planner distinguishes, and thus the
// first to try a change on.
//
//   Graph net = nets::LeNet({.batch = 64});
#pragma once

#include <cstdint>

#include "neap/core/graph/graph.h"

namespace neap::nets {

struct LeNetOptions {
  int64_t image = 28;  // height and width; at least 16
  int64_t classes = 10;
  int64_t batch = 1;
  int64_t channels = 1;
  DType dtype = DType::kFp32;
  Layout layout = Layout::kChannelsFirst;
};

// Layers conv1 pool1 conv2 pool2 fc1 relu1 fc2 loss. Unlike LeCun et al. (1998): no non-linearity
// after the convolutions, max pooling, 20 and 50 maps.
Graph LeNet(const LeNetOptions& options);

}  // namespace neap::nets

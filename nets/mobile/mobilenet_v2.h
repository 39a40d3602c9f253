// MobileNetV2 (Sandler et al., 2018), as torchvision's `mobilenet_v2`, with which it can exchange
// weights: 3,504,872 parameters.
//
// Half of its convolutions are depthwise. They have few multiply-adds for their bytes, so batch
// norm, ReLU6 and copies take a larger part of an iteration than in a ResNet.
//
//   Graph net = nets::MobileNetV2({.batch = 96});
//   Graph small = nets::MobileNetV2({.width = 0.25, .image = 96, .classes = 10, .batch = 32});
#pragma once

#include <cstdint>

#include "neap/core/graph/graph.h"

namespace neap::nets {

struct MobileNetV2Options {
  double width = 1;     // multiplies the numbers of channels; of the last convolution only above 1
  int64_t image = 224;  // height and width
  int64_t classes = 1000;
  int64_t batch = 1;
  int64_t channels = 3;
  float dropout = 0.2F;  // before the classifier
  DType dtype = DType::kFp32;
  Layout layout = Layout::kChannelsFirst;
};

// Layers are named like torchvision's modules: features.0.0, features.1.conv.0.0 ... classifier.1.
// The sum at the end of a block, for which torchvision has no module, is called features.N.add.
Graph MobileNetV2(const MobileNetV2Options& options);

}  // namespace neap::nets

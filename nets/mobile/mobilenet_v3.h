// MobileNetV3 (Howard et al., 2019), as torchvision's `mobilenet_v3_large` (5,483,032 parameters)
// and `mobilenet_v3_small` (2,542,856), with which it can exchange weights.
//
// Its deeper half uses hard swish, whose backward reads what the activation reads: unlike with a
// ReLU, backward needs the results of batch norms, or computes them again.
//
//   Graph large = nets::MobileNetV3({.batch = 128});
//   Graph small = nets::MobileNetV3({.large = false, .batch = 128});
#pragma once

#include <cstdint>

#include "neap/core/graph/graph.h"

namespace neap::nets {

struct MobileNetV3Options {
  bool large = true;
  int64_t image = 224;  // height and width
  int64_t classes = 1000;
  int64_t batch = 1;
  int64_t channels = 3;
  float dropout = 0.2F;  // before the last layer
  DType dtype = DType::kFp32;
  Layout layout = Layout::kChannelsFirst;
};

// Layers are named like torchvision's modules: features.0.0, features.4.block.2.fc1 ...
// classifier.3; what is no module follows the same scheme (features.4.block.2.mul,
// features.5.add). Batch norm's epsilon is 1e-3, its momentum 0.01.
Graph MobileNetV3(const MobileNetV3Options& options);

}  // namespace neap::nets

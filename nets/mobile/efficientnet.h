// EfficientNet-B0 to -B3 (Tan and Le, 2019), as torchvision's `efficientnet_b0` ... `_b3`, with
// which they can exchange weights: 5,288,548, 7,794,184, 9,109,994 and 12,233,232 parameters.
//
// Every block has squeeze and excitation, and every activation is a SiLU, whose backward reads what
// the activation reads: no other network here stores more bytes for its multiply-adds.
//
//   Graph b0 = nets::EfficientNet({.batch = 64});
//   nets::EfficientNetOptions b3 = nets::EfficientNetB(3);
//   b3.batch = 32;
//   Graph net = nets::EfficientNet(b3);
#pragma once

#include <cstdint>

#include "neap/core/graph/graph.h"

namespace neap::nets {

struct EfficientNetOptions {
  int variant = 0;      // 0 .. 3 of B0 .. B3: how wide and deep it is
  int64_t image = 224;  // height and width
  int64_t classes = 1000;
  int64_t batch = 1;
  int64_t channels = 3;
  float dropout = 0.2F;  // before the classifier
  DType dtype = DType::kFp32;
  Layout layout = Layout::kChannelsFirst;
};

// A variant with its image and dropout. torchvision evaluates B2 with images of 288 x 288, the
// paper with 260 x 260.
EfficientNetOptions EfficientNetB(int variant);

// Layers are named like torchvision's modules: features.0.0, features.1.0.block.1.fc1 ...
// classifier.1; what is no module follows the same scheme (features.1.0.block.1.mul,
// features.2.1.add). The graph is fixed, so blocks are not dropped at random while training
// (torchvision's stochastic_depth; examples/stochastic_depth.cc shows how a program does that).
Graph EfficientNet(const EfficientNetOptions& options);

}  // namespace neap::nets

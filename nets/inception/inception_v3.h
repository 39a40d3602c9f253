// Inception v3 (Szegedy et al., 2015), as torchvision's `inception_v3`: 23,834,568 parameters, and
// with its auxiliary classifier, which it has for training only, 27,161,264. Weights have
// torchvision's names and shapes; without the classifier, there are no tensors called AuxLogits.
// Those that torchvision offers for download were trained with another normalisation of the images
// (its transform_input).
//
//   Graph net = nets::InceptionV3({.batch = 32});
#pragma once

#include <cstdint>

#include "neap/core/graph/graph.h"

namespace neap::nets {

struct InceptionV3Options {
  int64_t image = 299;  // height and width; at least 75, and 299 with the auxiliary classifier
  int64_t classes = 1000;
  int64_t batch = 1;
  int64_t channels = 3;
  float dropout = 0.5F;     // before the classifier
  bool aux_logits = false;  // an auxiliary classifier, with a loss of weight 0.4
  DType dtype = DType::kFp32;
  Layout layout = Layout::kChannelsFirst;
};

// Layers are named like torchvision's modules: Conv2d_1a_3x3.conv, Conv2d_1a_3x3.bn ... fc. A pair
// of 1x3 and 3x1 convolutions at a branch's end is concatenated directly with the other branches,
// without a concatenation of the pair. Batch norm's epsilon is 1e-3.
Graph InceptionV3(const InceptionV3Options& options);

}  // namespace neap::nets

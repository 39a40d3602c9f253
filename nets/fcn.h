// FCN-8s (Long et al., 2015): VGG-16 made fully convolutional, with a label for each pixel. moDNN's
// "fully convolutional network".
//
// Three resolutions meet: the scores of the last layer, enlarged twice, are added to those of
// pool4, the sum, enlarged twice, to those of pool3, and that is enlarged eight times. So the
// outputs of pool3 and pool4 live over all that comes after them, and the largest tensors are at
// both ends.
//
//   Graph net = nets::Fcn8s({.image = 384, .batch = 8});
#pragma once

#include <cstdint>

#include "neap/core/graph/graph.h"

namespace neap::nets {

struct Fcn8sOptions {
  int64_t image = 500;   // height and width; at least 26
  int64_t classes = 21;  // PASCAL VOC's 20 and the background
  int64_t batch = 1;
  int64_t channels = 3;
  float dropout = 0.5F;
  DType dtype = DType::kFp32;
  Layout layout = Layout::kNchw;
};

// Layers named as in the authors' Caffe network, voc-fcn8s, whose weights have these shapes:
// conv1_1 ... fc7, score_fr, upscore2, score_pool4, ..., score; 134,489,759 parameters. As there,
// conv1_1 pads by 100 so that small images reach fc6, and what that adds is cropped away again,
// at offsets 5, 9 and 31. Unlike there, pooling rounds down, the enlargements are all learned (they
// start as bilinear interpolation), and the loss is a mean, not a sum.
Graph Fcn8s(const Fcn8sOptions& options);

}  // namespace neap::nets

// FCN-8s (Long et al., 2015): a fully convolutional VGG-16 that labels each pixel. It is moDNN's
// "fully convolutional network".
//
// Three resolutions are combined: the scores of the last layer are upsampled by 2 and added to
// those of pool4, the sum is upsampled by 2 and added to those of pool3, and the result is
// upsampled by 8. The outputs of pool3 and pool4 are therefore alive during all later layers, and
// the largest tensors are at both ends.
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
  Layout layout = Layout::kChannelsFirst;
};

// Layer names and weight shapes are those of the authors' Caffe network, voc-fcn8s: conv1_1 ...
// fc7, score_fr, upscore2, score_pool4, ..., score; 134,489,759 parameters. As there, conv1_1 pads
// by 100 to let small images reach fc6, and the added border is cropped at offsets 5, 9 and 31.
// Unlike there, pooling rounds down, all upsampling is learned (initialised to bilinear
// interpolation), and the loss is a mean, not a sum.
Graph Fcn8s(const Fcn8sOptions& options);

}  // namespace neap::nets

// Atrous spatial pyramid pooling (Chen et al., 2017): convolutions of the same map with several
// dilations, and its mean, joined: the ASPP of torchvision and of segmentation_models_pytorch.
//
//   x --+-- 1x1 -----------------+-- concat -- 1x1 -- dropout
//       |-- 3x3, dilation 12 ----|
//       |-- 3x3, dilation 24 ----|
//       |-- 3x3, dilation 36 ----|
//       +-- mean -- 1x1 -- copy -+
//
//   x = AddAtrousPyramid(net, "classifier.0.", {.size = 60}, 2048, x);
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "neap/core/graph/graph.h"

namespace neap::nets {

struct AtrousPyramid {
  int64_t size = 0;  // the map's height and width
  int64_t out_channels = 256;
  std::array<int64_t, 3> dilations = {12, 24, 36};
  bool separable = false;  // the 3x3 convolutions
  float dropout = 0.5F;
};

// Names are PREFIXconvs.0.0 ... PREFIXproject.3, which is returned. The mean has one value for each
// image and channel, of which the batch norm behind it takes the statistics: training needs a batch
// of at least 2.
std::string AddAtrousPyramid(Graph& net, const std::string& prefix, const AtrousPyramid& pyramid,
                             int64_t in_channels, const std::string& x);

}  // namespace neap::nets

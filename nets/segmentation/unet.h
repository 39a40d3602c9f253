// U-Net (Ronneberger et al., 2015) with padded convolutions, which labels each pixel.
//
// The contracting path halves the size and doubles the maps four times; the expanding path reverses
// this, and each of its levels reads the contracting path's output of the same size. The first
// level's output, the largest tensor, is therefore alive during almost the whole network.
//
//   Graph net = nets::UNet({.image = 256, .batch = 8, .batch_norm = true});
#pragma once

#include <cstdint>

#include "neap/core/graph/graph.h"

namespace neap::nets {

struct UNetOptions {
  int64_t image = 512;  // height and width; a multiple of 16
  int64_t classes = 2;
  int64_t batch = 1;
  int64_t channels = 1;
  int64_t width = 64;       // maps of the first level; each further one doubles them
  bool batch_norm = false;  // before every ReLU; the convolutions then have no bias
  DType dtype = DType::kFp32;
  Layout layout = Layout::kChannelsFirst;
};

// The paper's layers, 31,030,658 parameters, without its dropout, and with padding, so the result
// is as large as the image and nothing is cropped. Upsampling is a 2x2 transposed convolution.
// Layers are named as in milesial/Pytorch-UNet (inc.double_conv.0, up1.up, outc.conv), with which
// weights can be exchanged if `batch_norm` is set: 31,037,698 parameters for 3 channels.
Graph UNet(const UNetOptions& options);

}  // namespace neap::nets

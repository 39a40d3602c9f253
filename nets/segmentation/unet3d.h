// MLPerf's 3-D U-Net for the kidneys and tumours of KiTS19 (MLCommons training v1.0 to v3.1,
// retired_benchmarks/unet3d/pytorch), which is nnU-Net's of 2018.
//
//   Graph net = nets::UNet3d({.image = 64, .batch = 4});
#pragma once

#include <cstdint>

#include "neap/core/graph/graph.h"

namespace neap::nets {

struct UNet3dOptions {
  int64_t image = 128;  // each edge of the volume; a multiple of 32
  int64_t channels = 1;
  int64_t classes = 3;
  int64_t batch = 2;
  DType dtype = DType::kFp32;
  Layout layout = Layout::kChannelsFirst;
};

// 32, 64, 128, 256, 320 and 320 features at six resolutions, at each two 3x3x3 convolutions without
// bias, the first of which has a stride of 2, with affine instance norms and ReLUs; transposed
// convolutions enlarge. Names are the reference's (input_block.conv1.0.weight,
// upsample.0.upsample_conv.0.weight, output.conv.weight), and so are the 31,190,243 parameters.
// Training minimises the reference's loss, (1 - Dice without the background + cross-entropy) / 2,
// less 1/2: DiceLoss with a smooth of 1e-6.
Graph UNet3d(const UNet3dOptions& options);

}  // namespace neap::nets

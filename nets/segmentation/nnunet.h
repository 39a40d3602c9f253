// nnU-Net's networks (Isensee et al., 2021 and 2024), in 2-D and 3-D: its plain U-Net, and those
// with a residual encoder, as the package dynamic_network_architectures builds them.
//
// A stage is a resolution: its first convolution has the stride by which it is coarser than the
// stage before. The decoder enlarges each stage by a transposed convolution whose kernel is that
// stride, and joins what the encoder has at that resolution. Each of its stages predicts the
// classes, and has a loss of its own: deep supervision. What the first stages compute, the largest
// tensors, is alive during almost the whole network.
//
//   patch      stage 0 #################################### head -> loss
//   patch / 2    stage 1 ############################## head -> loss * 1/2
//   patch / 4      stage 2 ######################## head -> loss * 1/4
//                    ...
//
//   Graph net = nets::NnUNet(nets::NnUNet3d(128));
//   Graph large = nets::NnUNet(nets::ResEncUNet3d(192));
//
// Evaluation and prediction run the head of the highest resolution alone.
#pragma once

#include <cstdint>
#include <vector>

#include "neap/core/graph/graph.h"
#include "neap/core/step/window.h"

namespace neap::nets {

struct NnUNetStage {
  int64_t features = 32;
  Extents kernel = 3;  // odd; padded so that a stride of 1 keeps the size
  Extents stride = 1;
  int64_t blocks = 2;          // convolutions of the encoder, or its residual blocks
  int64_t decoder_blocks = 2;  // convolutions of the decoder; the last stage has none
};

struct NnUNetOptions {
  GraphOptions graph = {.name = "nnunet", .batch = 2};
  std::vector<int64_t> patch;  // {H, W} or {D, H, W}; multiples of the product of all strides
  std::vector<NnUNetStage> stages;
  // The encoder begins with a convolution, and its blocks have two of them beside a skip connection
  // (BasicBlockD): an average pool if the block has a stride, and a 1x1 convolution without bias if
  // it has more features.
  bool residual = false;
  int64_t channels = 1;
  int64_t classes = 2;
  bool batch_dice = false;  // DiceLoss::batch
  bool deep_supervision = true;
  bool lowest_head = true;  // of several; false: it has neither parameters nor a loss
};

// The topologies that nnU-Net plans for square images, or cubes of isotropic voxels, with this
// edge: it halves the resolution while at least 4 positions are left, and doubles the features, up
// to 320 in 3-D and 512 in 2-D. The Dice of 2-D is over the batch, which then is not run in parts.
NnUNetOptions NnUNet3d(int64_t edge);
NnUNetOptions NnUNet2d(int64_t edge);
// With a residual encoder. nnU-Net's presets M, L and XL differ in the patch for which their GPU
// has memory.
NnUNetOptions ResEncUNet3d(int64_t edge);

// Convolutions and transposed convolutions have biases, instance norms affine parameters and an
// epsilon of 1e-5, and leaky ReLUs a slope of 0.01. The parameters have the names that the package
// gives them first (encoder.stages.0.0.convs.0.conv.weight), and their number is its number; it
// keeps each of them under further names, such as ...all_modules.0.weight. They begin as there
// (kaiming_normal_), but for the last norm of a residual block, which begins at 1 instead of 0.
//
// The loss of each head is NnUNetLoss() (layers/loss/dice_loss.h), times 1/2 for each stage below
// the first, 10^-6 for the lowest head if there are several, all divided by their sum: nnU-Net's
// weights in training on several GPUs. On one it keeps that head's parameters, but does not train
// them, because its loss counts for nothing; without `lowest_head` the other weights are the same,
// and neither its forward nor its backward runs. Errors: those of Resolve() for a patch that the
// strides do not divide, and for one class, because the first one is the background.
Graph NnUNet(const NnUNetOptions& options);

}  // namespace neap::nets

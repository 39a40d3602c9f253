// Networks that label each pixel, with a ResNet as their encoder: U-Net (Ronneberger et al., 2015),
// FPN (Kirillov et al., 2019) and DeepLabV3+ (Chen et al., 2018), as segmentation_models_pytorch
// builds them by default (Unet, FPN, DeepLabV3Plus).
//
//                 U-Net               FPN                        DeepLabV3+
//   image / 1     up, 2 convolutions  up 4, bilinear             up 4, bilinear
//   image / 2  -> up, join, 2 conv.
//   layer1, /4 -> up, join, 2 conv.   up, add; conv. ------+     up 4, join, separable conv.
//   layer2, /8 -> up, join, 2 conv.   up, add; conv., up --+
//   layer3, /16 > up, join, 2 conv.   up, add; 2 of them --+     layer4 with a dilation: an
//   layer4, /32   ^                   ^        3 of them --+     atrous pyramid
//
//   Graph unet = nets::ResNetUNet({.encoder = nets::kResNet34, .image = 256, .batch = 16});
//   Graph fpn = nets::ResNetFpn({.encoder = nets::kResNet50, .classes = 2, .batch = 8});
//   Graph deeplab = nets::DeepLabV3Plus({.encoder = nets::kResNet101, .batch = 8});
#pragma once

#include <cstdint>

#include "neap/core/graph/graph.h"
#include "neap/nets/residual/resnet.h"

namespace neap::nets {

struct ResNetDecoderOptions {
  ResNetVariant encoder = kResNet34;
  int64_t image = 512;  // height and width: a multiple of 32, or of 16 for DeepLabV3Plus()
  int64_t classes = 21;
  int64_t batch = 2;
  int64_t channels = 3;
  DType dtype = DType::kFp32;
  Layout layout = Layout::kChannelsFirst;
};

// Parameters have the package's names: those of torchvision's ResNets behind "encoder.", then
// decoder.blocks.0.conv1.0.weight ... segmentation_head.0.weight. Their numbers for one class are
// the package's:
//
//                  resnet18    resnet34    resnet50    resnet101
//   ResNetUNet     14,328,209  24,436,369  32,521,105  51,513,233
//   ResNetFpn      13,047,233  23,155,393  26,116,033  45,108,161
//   DeepLabV3Plus  12,329,297  22,437,457  26,677,585  45,669,713
//
// The loss is SoftmaxCrossEntropy of each pixel; WithLabelLoss() and WithTargetLoss()
// (nets/with_loss.h) set another one, the latter for one class.

// Nearest neighbours enlarge, and the encoder's map of the same size is joined: five times, the
// last time there is none.
Graph ResNetUNet(const ResNetDecoderOptions& options);

// 256 channels in the pyramid, 128 in the sum of its four levels at a quarter of the size, of which
// training drops a fifth of the channels.
Graph ResNetFpn(const ResNetDecoderOptions& options);

// layer4 has dilations of 2 at a sixteenth of the size; 48 channels of layer1 are joined with the
// pyramid's 256. Training needs a batch of at least 2 (nets/segmentation/atrous_pyramid.h).
Graph DeepLabV3Plus(const ResNetDecoderOptions& options);

}  // namespace neap::nets

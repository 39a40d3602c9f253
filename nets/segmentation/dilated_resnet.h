// Dilated ResNets that label each pixel, as torchvision builds them: FCN (Long et al., 2015) and
// DeepLabV3 (Chen et al., 2017). layer3 and layer4 have dilations instead of strides, so the head
// sees an eighth of the image's size, and bilinear interpolation enlarges its scores.
//
//   Graph deeplab = nets::DeepLabV3({.batch = 8, .aux_logits = true});
//   Graph fcn = nets::FcnResNet({.backbone = nets::kResNet101, .batch = 8});
#pragma once

#include <cstdint>

#include "neap/core/graph/graph.h"
#include "neap/nets/residual/resnet.h"

namespace neap::nets {

struct DilatedResNetOptions {
  ResNetVariant backbone = kResNet50;  // with bottlenecks
  int64_t image = 480;                 // height and width; a multiple of 8
  int64_t classes = 21;                // PASCAL VOC's 20 and the background
  int64_t batch = 2;
  int64_t channels = 3;
  // A second head, of layer3, with a loss of weight 0.5.
  bool aux_logits = false;
  DType dtype = DType::kFp32;
  Layout layout = Layout::kChannelsFirst;
};

// Parameters have torchvision's names (backbone.conv1.weight, classifier.4.weight,
// aux_classifier.0.weight), and their numbers with the auxiliary head are those of its weights:
//
//                resnet50    resnet101
//   DeepLabV3()  42,004,074  60,996,202
//   FcnResNet()  35,322,218  54,314,346
//
// The losses are SoftmaxCrossEntropy of each pixel.

// Training needs a batch of at least 2 (nets/segmentation/atrous_pyramid.h).
Graph DeepLabV3(const DilatedResNetOptions& options);
Graph FcnResNet(const DilatedResNetOptions& options);

}  // namespace neap::nets

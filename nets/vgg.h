// VGG (Simonyan and Zisserman, 2014), as torchvision has it: no network here keeps more bytes per
// layer. Its first two convolutions alone hold 64 maps at full image size, so the peak lies at the
// very end of the backward pass.
//
//   Graph net = nets::Vgg({.convolutions = nets::kVgg19, .batch = 64});
#pragma once

#include <array>
#include <cstdint>

#include "neap/core/graph/graph.h"

namespace neap::nets {

inline constexpr std::array<int64_t, 5> kVgg16 = {2, 2, 3, 3, 3};
inline constexpr std::array<int64_t, 5> kVgg19 = {2, 2, 4, 4, 4};
// moDNN's VGG-101, "created by increasing the convolutional layers of VGG-19" (TPDS 2019, section
// 7), which does not say where. Here: 98 convolutions and 3 fully connected layers, the 98 over the
// five groups in VGG-19's proportion, 2:2:4:4:4. At moDNN's batch of 128 the outputs of its
// convolutions and ReLUs are then 92 GB, its "nearly 100 GB"; equal groups of 20, the way in
// which vDNN (2016) deepens VGG-16, would make them 125.
inline constexpr std::array<int64_t, 5> kVgg101 = {12, 12, 25, 25, 24};

// Maps of the convolutions of each group.
inline constexpr std::array<int64_t, 5> kVggWidths = {64, 128, 256, 512, 512};

struct VggOptions {
  std::array<int64_t, 5> convolutions = kVgg16;  // between one pooling and the next
  int64_t image = 224;                           // height and width; at least 32
  int64_t classes = 1000;
  int64_t batch = 1;
  int64_t channels = 3;
  float dropout = 0.5F;
  DType dtype = DType::kFp32;
  Layout layout = Layout::kNchw;
};

// torchvision.models.vgg16 (138,357,544 parameters), vgg19 (143,667,240): layers named features.0
// ... classifier.6. Its adaptive average pooling to 7x7, the identity at 224 (up to 255), is left
// out: other sizes that do not come to 7x7 give classifier.0 another number of weights.
Graph Vgg(const VggOptions& options);

}  // namespace neap::nets

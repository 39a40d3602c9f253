// VGG (Simonyan and Zisserman, 2014), as in torchvision. No other network here stores more bytes
// per layer: its first two convolutions have 64 maps at full image size, so the peak is at the very
// end of the backward pass.
//
//   Graph net = nets::Vgg({.convolutions = nets::kVgg19, .batch = 64});
#pragma once

#include <array>
#include <cstdint>

#include "neap/core/graph/graph.h"

namespace neap::nets {

inline constexpr std::array<int64_t, 5> kVgg13 = {2, 2, 2, 2, 2};
inline constexpr std::array<int64_t, 5> kVgg16 = {2, 2, 3, 3, 3};
inline constexpr std::array<int64_t, 5> kVgg19 = {2, 2, 4, 4, 4};
// moDNN's VGG-101, "created by increasing the convolutional layers of VGG-19" (TPDS 2019, section
// 7), which does not say where. Here it has 98 convolutions and 3 fully connected layers, with the
// convolutions divided among the five groups in VGG-19's proportion, 2:2:4:4:4. At moDNN's batch of
// 128 the outputs of convolutions and ReLUs are then 92 GB, which matches its "nearly 100 GB";
// equal groups of 20, as in vDNN's (2016) deeper VGG-16, would give 125 GB.
inline constexpr std::array<int64_t, 5> kVgg101 = {12, 12, 25, 25, 24};

// The number of maps of each group's convolutions.
inline constexpr std::array<int64_t, 5> kVggWidths = {64, 128, 256, 512, 512};

struct VggOptions {
  std::array<int64_t, 5> convolutions = kVgg16;  // between one pooling and the next
  int64_t image = 224;                           // height and width; at least 32
  int64_t classes = 1000;
  int64_t batch = 1;
  int64_t channels = 3;
  float dropout = 0.5F;
  DType dtype = DType::kFp32;
  Layout layout = Layout::kChannelsFirst;
};

// torchvision.models.vgg13 (133,047,848 parameters), vgg16 (138,357,544) and vgg19 (143,667,240),
// with layers named features.0 ... classifier.6. The adaptive average pooling to 7x7, the identity
// at 224 (up to 255), is omitted, so image sizes that do not give 7x7 change the number of
// classifier.0's weights.
Graph Vgg(const VggOptions& options);

}  // namespace neap::nets

// GoogLeNet (Szegedy et al., 2014), as torchvision's `googlenet`: 6,624,904 parameters, and with
// its auxiliary classifiers, which it has for training only, 13,004,888. Weights have torchvision's
// names and shapes. Those that torchvision offers for download were trained with another
// normalisation of the images (its transform_input).
//
//   Graph net = nets::GoogLeNet({.batch = 32, .aux_logits = true});
#pragma once

#include <cstdint>

#include "neap/core/graph/graph.h"

namespace neap::nets {

struct GoogLeNetOptions {
  int64_t image = 224;  // height and width; at least 15, and 63 with the auxiliary classifiers
  int64_t classes = 1000;
  int64_t batch = 1;
  int64_t channels = 3;
  float dropout = 0.2F;      // before the classifier
  float dropout_aux = 0.7F;  // before each auxiliary one
  bool aux_logits = false;   // two auxiliary classifiers, each with a loss of weight 0.3
  DType dtype = DType::kFp32;
  Layout layout = Layout::kChannelsFirst;
};

// Layers are named like torchvision's modules: conv1.conv, conv1.bn ... fc. As there, convolutions
// are followed by batch norm with an epsilon of 1e-3, and the branch of the paper's 5x5
// convolutions has 3x3 ones. The auxiliary classifiers begin with the paper's average pooling to
// 4x4, 5x5 windows at a distance of 3 for images of 224; torchvision's windows are 4x4, at
// distances of 3 and 4.
Graph GoogLeNet(const GoogLeNetOptions& options);

}  // namespace neap::nets

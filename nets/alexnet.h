// AlexNet in two versions: torchvision's, which can exchange weights with PyTorch, and the one that
// the SuperNeurons paper plans.
//
// They differ in memory: torchvision's (Krizhevsky, "One weird trick", 2014) has 64-192-384-256-256
// maps at 224x224 and no normalisation; the paper's has the 2012 network's 96-256-384-384-256 maps
// in one tower at 227x227, with LRN. The paper's published peaks hold only for the latter.
//
//   Graph net = nets::AlexNet({.batch = 128});
//   Graph paper = nets::AlexNetPaper({.batch = 200});
#pragma once

#include <cstdint>

#include "neap/core/graph/graph.h"

namespace neap::nets {

struct AlexNetOptions {
  int64_t image = 224;  // height and width; at least 63
  int64_t classes = 1000;
  int64_t batch = 1;
  int64_t channels = 3;
  float dropout = 0.5F;
  DType dtype = DType::kFp32;
  Layout layout = Layout::kChannelsFirst;
};

// torchvision.models.alexnet, 61,100,840 parameters, with layers named like its modules: features.0
// ... classifier.6. Its adaptive average pooling to 6x6, the identity at 224 (up to 254), is
// omitted, so image sizes that do not give 6x6 change the number of classifier.1's weights.
Graph AlexNet(const AlexNetOptions& options);

struct AlexNetPaperOptions {
  int64_t image = 227;  // height and width; at least 67
  int64_t classes = 1000;
  int64_t batch = 1;
  int64_t channels = 3;
  float dropout = 0.5F;
  DType dtype = DType::kFp32;
  Layout layout = Layout::kChannelsFirst;
};

// The 23 layers of SuperNeurons, footnote 3, in that order, with 62,378,344 parameters. The 23rd
// layer is the loss's softmax.
Graph AlexNetPaper(const AlexNetPaperOptions& options);

}  // namespace neap::nets

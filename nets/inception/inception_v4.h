// Inception v4 (Szegedy et al., 2016), as timm's `inception_v4`, with which it can exchange
// weights: 42,679,816 parameters at 299x299.
//
// This is the network with the widest graph: up to six branches meet in one concatenation, and all
// branches of a module read the same tensor, so liveness depends on their order. SuperNeurons
// counts 515 basic layers: the 488 layers here, two data layers, which are the input and labels
// here, and 25 fork layers, one for every tensor that several layers read, which a graph does not
// need.
//
//   Graph net = nets::InceptionV4({.batch = 32});
#pragma once

#include <cstdint>

#include "neap/core/graph/graph.h"

namespace neap::nets {

struct InceptionV4Options {
  int64_t image = 299;  // height and width; at least 75
  int64_t classes = 1000;
  int64_t batch = 1;
  int64_t channels = 3;
  float dropout = 0.2F;  // before the classifier; the paper gives it as "keep 0.8"
  DType dtype = DType::kFp32;
  Layout layout = Layout::kChannelsFirst;
};

// Layers are named like timm's modules: features.0.conv, features.0.bn ... last_linear. A pair of
// 1x3 and 3x1 convolutions at a branch's end is concatenated directly with the other branches,
// without a concatenation of the pair. Batch norm's epsilon is 1e-3; average pools exclude their
// padding from the mean.
Graph InceptionV4(const InceptionV4Options& options);

}  // namespace neap::nets

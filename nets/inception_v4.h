// Inception v4 (Szegedy et al., 2016), as timm's `inception_v4` has it, so that weights exchange:
// 42,679,816 parameters at 299x299.
//
// The widest graph here: up to six branches meet in one concatenation, every branch reads the same
// tensor, and no two modules follow each other in a line; liveness has more to say than in any
// chain. SuperNeurons counts 515 basic layers: these 488 and the input and labels, which are its
// two data layers, and 25 fork layers, one wherever several layers read one tensor; a graph needs
// none for that.
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
  float dropout = 0.2F;  // before the classifier: the paper keeps 0.8
  DType dtype = DType::kFp32;
  Layout layout = Layout::kNchw;
};

// Layers named as timm's modules: features.0.conv, features.0.bn ... last_linear. A pair of 1x3 and
// 3x1 convolutions at a branch's end goes into its module's concatenation directly, not into one of
// its own first. Batch norm's epsilon is 1e-3; average pools leave their padding out of the mean.
Graph InceptionV4(const InceptionV4Options& options);

}  // namespace neap::nets

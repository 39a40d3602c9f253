// RegNetY-400MF (Radosavovic et al., 2020), as torchvision's `regnet_y_400mf`, with which it can
// exchange weights: 4,344,144 parameters.
//
//   Graph net = nets::RegNetY400MF({.batch = 128});
#pragma once

#include <cstdint>

#include "neap/core/graph/graph.h"

namespace neap::nets {

struct RegNetOptions {
  int64_t image = 224;  // height and width
  int64_t classes = 1000;
  int64_t batch = 1;
  int64_t channels = 3;
  DType dtype = DType::kFp32;
  Layout layout = Layout::kNchw;
};

// Layers are named like torchvision's modules: stem.0, trunk_output.block1.block1-0.proj.0,
// trunk_output.block1.block1-0.f.se.fc1 ... fc; a block's sum is ...block1-0.add.
Graph RegNetY400MF(const RegNetOptions& options);

}  // namespace neap::nets

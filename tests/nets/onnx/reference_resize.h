// The reference of ONNX's operators that give images {N, C, H, W} other extents.
#pragma once

#include "tests/nets/onnx/reference_node.h"

namespace neap::testing::reference {

// With `upsamples`, the operator before opset 11: its second input is the scales.
T Resize(const Run& run, bool upsamples);
T DepthToSpace(const Run& run);
T SpaceToDepth(const Run& run);

}  // namespace neap::testing::reference

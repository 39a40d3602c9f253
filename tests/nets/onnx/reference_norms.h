// The reference of ONNX's norms of each image. Channels are the second axis, also behind a
// Transpose, which the reference leaves out.
#pragma once

#include "tests/nets/onnx/reference_node.h"

namespace neap::testing::reference {

T InstanceNormalization(const Run& run);
T GroupNormalization(const Run& run);
T LayerNormalization(const Run& run);

}  // namespace neap::testing::reference

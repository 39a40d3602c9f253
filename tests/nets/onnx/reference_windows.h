// The reference of ONNX's operators with windows.
#pragma once

#include "tests/nets/onnx/reference_node.h"

namespace neap::testing::reference {

T Conv(const Run& run);
T ConvTranspose(const Run& run);
T Pool(const Run& run, bool max);

}  // namespace neap::testing::reference

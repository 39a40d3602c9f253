// Layers that give the elements of images other places, or repeat them, in float64, as the headers
// in layers/shape define them.
#pragma once

#include "tests/layers/harness.h"

namespace neap::testing {

// Reshape, Permute, WindowPartition, WindowMerge and Roll.
Values ReferenceShapes(const StepSignature& signature, const Values& given);
Values ReferenceTile(const StepSignature& signature, const Values& given);

}  // namespace neap::testing

// The reference for the kernels: every step of every layer in float64 and plain loops over N, C, H,
// W. It is independent of dtypes, and of layouts except for the dropout mask, which numbers
// elements in memory order.
#pragma once

#include "tests/layers/harness.h"

namespace neap::testing {

// The operands that the step writes or accumulates into, computed from those that it reads.
Values ReferenceStep(const StepSignature& signature, const Values& given);

}  // namespace neap::testing

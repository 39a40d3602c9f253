// Every step of every layer in float64 and plain loops over N, C, H, W: what the kernels are
// measured against. Knows nothing of dtypes; of layouts only what the dropout mask, which counts
// elements in memory order, needs.
#pragma once

#include "tests/layers/harness.h"

namespace neap::testing {

// All that the step writes or accumulates into, from all that it reads.
Values ReferenceStep(const StepSignature& signature, const Values& given);

}  // namespace neap::testing

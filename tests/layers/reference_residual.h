// The end of a residual branch in float64, as layers/fusion/residual_tail.h defines it.
#pragma once

#include "tests/layers/harness.h"

namespace neap::testing {

Values ReferenceResidualTail(const StepSignature& signature, const Values& given);

}  // namespace neap::testing

// Attention in float64, as layers/attention/attention.h defines it.
#pragma once

#include "tests/layers/harness.h"

namespace neap::testing {

Values ReferenceAttention(const StepSignature& signature, const Values& given);

}  // namespace neap::testing

// The float64 reference of batch norms whose results are concatenated.
#pragma once

#include "tests/layers/harness.h"

namespace neap::testing {

Values ReferenceConcatBatchNorms(const StepSignature& signature, const Values& given);

}  // namespace neap::testing

// The optimizer's update of parameters in float64 (core/step/optimizer.h).
#pragma once

#include "tests/layers/harness.h"

namespace neap::testing {

Values ReferenceUpdate(const StepSignature& signature, const Values& given);

}  // namespace neap::testing

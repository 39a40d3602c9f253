// Activations in float64, as layers/activation.h and layers/prelu.h define them.
#pragma once

#include <cmath>

#include "tests/layers/harness.h"

namespace neap::testing {

inline double SigmoidOf(double x) { return 1 / (1 + std::exp(-x)); }

// Forward or backward_data of any of the layers of layers/activation.h.
Values ReferenceActivation(const StepSignature& signature, const Values& given);
Values ReferenceBiasedGelu(const StepSignature& signature, const Values& given);
Values ReferencePrelu(const StepSignature& signature, const Values& given);

}  // namespace neap::testing

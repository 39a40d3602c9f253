// The float64 reference of batch normalisation over ranks (layers/fusion/sync_batch_norm.h).
#pragma once

#include <vector>

#include "tests/layers/harness.h"

namespace neap::testing {

Values ReferenceBatchNormStatistics(const StepSignature& signature, const Values& given);
Values ReferenceBatchNormApply(const StepSignature& signature, const Values& given);

// Random values in [-2, 2) for an input of a layer or, if it reads statistics there, or targets
// from 0 to 1, such as follow from them.
std::vector<double> AsInput(const Layer& layer, Operand input, const TensorSpec& spec,
                            std::vector<double> random);

// Whether the element is one of the statistics that have no gradient.
bool HasNoGradient(const Layer& layer, Operand input, const TensorSpec& spec, size_t element);

}  // namespace neap::testing

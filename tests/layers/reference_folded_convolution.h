// The float64 reference of a convolution with a folded batch norm: the two layers one after
// another, with the convolution's result in between.
#pragma once

#include <string>

#include "tests/layers/harness.h"

namespace neap::testing {

Values ReferenceFoldedConvolution(const StepSignature& signature, const Values& given);
// ChoiceFailure() (tests/layers/reference.h) of a forward step.
std::string FoldedConvolutionChoiceFailure(const StepSignature& signature, const Values& got);

}  // namespace neap::testing

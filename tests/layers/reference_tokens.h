// The float64 reference of the layers of language models (layers/tokens).
#pragma once

#include "tests/layers/harness.h"

namespace neap::testing {

Values ReferenceEmbedding(const StepSignature& signature, const Values& given);
Values ReferencePositionEmbedding(const StepSignature& signature, const Values& given);
Values ReferencePrependToken(const StepSignature& signature, const Values& given);
// Logits and their gradients are rounded to the type of x, as the layer's header says.
Values ReferenceLinearCrossEntropy(const StepSignature& signature, const Values& given);

}  // namespace neap::testing

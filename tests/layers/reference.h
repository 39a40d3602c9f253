// The reference for the kernels: every step of every layer in float64 and plain loops over N, C, H,
// W. It is independent of dtypes, and of layouts except for the dropout mask, which numbers
// elements in memory order.
#pragma once

#include <string>

#include "tests/layers/harness.h"

namespace neap::testing {

// The operands that the step writes or accumulates into, computed from those that it reads.
Values ReferenceStep(const StepSignature& signature, const Values& given);

// Whether the operand is a choice between values of which rounding makes equals: the index or mask
// of a fused layer. It must agree with the results of the kernel itself, not with the reference's.
bool IsChoice(const StepSignature& signature, Operand operand);
// How the choices in `got`, the results of a step that makes some, disagree with its other results;
// empty if they do not.
std::string ChoiceFailure(const StepSignature& signature, const Values& given, const Values& got,
                          double tolerance);

}  // namespace neap::testing

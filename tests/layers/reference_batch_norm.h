// The float64 reference of batch normalisation, alone and with what follows it in a fused layer.
#pragma once

#include <string>
#include <vector>

#include "tests/layers/harness.h"

namespace neap::testing {

// A bit per element of y in memory order: whether it is positive
// (layers/fusion/norm_pass.h).
std::vector<double> ReluMask(const TensorSpec& spec, const std::vector<double>& y);

// The gradient `dy` of such a result, or 0 where the mask says so.
std::vector<double> Masked(const TensorSpec& spec, const std::vector<double>& mask,
                           std::vector<double> dy);

Values ReferenceBatchNorm(const StepSignature& signature, const Values& given);
// Whether it is a norm pass with another activation than a ReLU, or a group norm with one.
bool IsActivatedNorm(const Layer& layer);
// ChoiceFailure() (tests/layers/reference.h) of a forward step.
std::string BatchNormChoiceFailure(const StepSignature& signature, const Values& given,
                                   const Values& got, double tolerance);

}  // namespace neap::testing

// The three oneDNN primitives of a convolution, shared by convolutions and transposed convolutions,
// which use forward and backward_data in swapped roles.
#pragma once

#include <optional>

#include "neap/layers/convolution.h"
#include "neap/layers/cpu/candidates.h"

namespace neap::cpu {

// The operands of the step that are the convolution's input, weight, output and bias, or their
// gradients.
struct ConvolutionRoles {
  Convolution layer;
  Operand x, weight, y;
  std::optional<Operand> bias = {};  // a step need not have it
};

absl::StatusOr<Candidates> ListForward(const StepSignature& signature,
                                       const ConvolutionRoles& roles);
absl::StatusOr<Candidates> ListBackwardData(const StepSignature& signature,
                                            const ConvolutionRoles& roles);
absl::StatusOr<Candidates> ListBackwardParams(const StepSignature& signature,
                                              const ConvolutionRoles& roles);

}  // namespace neap::cpu

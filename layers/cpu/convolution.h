// The three oneDNN primitives of a convolution, for the layers that are one: under their own names
// for a convolution, under each other's for a transposed one.
#pragma once

#include <optional>

#include "neap/layers/convolution.h"
#include "neap/layers/cpu/candidates.h"

namespace neap::cpu {

// Which operands of the step are the convolution's input, weight, output and bias, or their
// gradients.
struct ConvolutionRoles {
  Convolution layer;
  Operand x, weight, y;
  std::optional<Operand> bias = {};  // the step may be without it
};

absl::StatusOr<Candidates> ListForward(const StepSignature& signature,
                                       const ConvolutionRoles& roles);
absl::StatusOr<Candidates> ListBackwardData(const StepSignature& signature,
                                            const ConvolutionRoles& roles);
absl::StatusOr<Candidates> ListBackwardParams(const StepSignature& signature,
                                              const ConvolutionRoles& roles);

}  // namespace neap::cpu

// The conformance test of every backend's kernels for a LayerCase: each step with each engine
// agrees with the float64 reference, repeats its bits, gives the same bits in place and as a rerun,
// and accumulates into the operands that its signature accumulates. Operands hold numbers of their
// types, so a 16-bit result differs from the reference by its own rounding only, and by that of the
// results between the layers which a fused layer replaces.
#pragma once

#include <string>
#include <vector>

#include "tests/layers/cases.h"
#include "tests/layers/harness.h"

namespace neap::testing {

struct ConformanceOptions {
  // |got - want| <= (tolerance + roundings of the operand's type) * max(1, largest |want|)
  double tolerance = 2e-5;
  // Of each step, in the backend's order; the first with a ReLU and the first without besides.
  size_t most_engines = 64;
  uint32_t seed = 1;  // of the values
};

// One sentence per violation; empty if there is none.
std::vector<std::string> ConformanceFailures(Backend& backend, const DeviceAccess& access,
                                             const LayerCase& layer_case,
                                             const ConformanceOptions& options = {});

// Random values, of the operands' types, of all operands that exist before the first step: inputs,
// labels in range, parameters, states, the iteration's scalars, and the output gradient.
Values RandomValues(const LayerCase& layer_case, const LayerSpec& spec, uint32_t seed);

// Describes the first element that violates |got - want| <= tolerance * max(least_scale, largest
// |want|); empty if none does.
std::string Difference(const std::vector<double>& got, const std::vector<double>& want,
                       double tolerance, double least_scale = 1);

}  // namespace neap::testing

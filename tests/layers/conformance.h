// What every backend's kernels must do with a LayerCase, as one call: each step under each engine
// agrees with the float64 reference, repeats its bits, gives the same bits in place and as a rerun,
// and adds where it says it adds.
#pragma once

#include <string>
#include <vector>

#include "tests/layers/cases.h"
#include "tests/layers/harness.h"

namespace neap::testing {

struct ConformanceOptions {
  // |got - want| <= tolerance * max(1, largest |want| of the tensor)
  double tolerance = 2e-5;
  size_t most_engines = 64;  // of each step, in the backend's order
  uint32_t seed = 1;         // of the values
};

// One sentence per violation, empty when there is none.
std::vector<std::string> ConformanceFailures(Backend& backend, const DeviceAccess& access,
                                             const LayerCase& layer_case,
                                             const ConformanceOptions& options = {});

// Random fp32 values for everything that the first step reads or is given, by the layer's spec:
// inputs, labels in range, parameters, states, the iteration's scalars, and the output gradient.
Values RandomValues(const LayerCase& layer_case, const LayerSpec& spec, uint32_t seed);

// Why `got` is not `want`, |got - want| <= tolerance * max(least_scale, largest |want|); empty when
// it is.
std::string Difference(const std::vector<double>& got, const std::vector<double>& want,
                       double tolerance, double least_scale = 1);

}  // namespace neap::testing

// What norms have in common, and the steps of those that do not couple images: group norm and layer
// norm.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "neap/core/step/layer.h"

namespace neap {

// INVALID_ARGUMENT unless it is positive.
absl::Status CheckEpsilon(float epsilon);

// The parameters 0 weight (gamma), which begins at 1, and, with `bias`, 1 bias (beta), which begins
// at 0; none unless it is `affine`.
std::vector<ParamSpec> NormParams(int64_t channels, bool affine = true, bool bias = true);

// The spec of a norm of each image of x, with the operands that the tables in the layers' headers
// list. `statistics` is the shape of its means, whose first extent is the number of images.
LayerSpec ImageNormSpec(const TensorSpec& x, const Shape& statistics, std::vector<ParamSpec> params,
                        Mode mode);

}  // namespace neap

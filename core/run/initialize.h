// First values of persistent tensors: a pure function of seed, tensor name and element, the same on
// every device, in every layout and in whatever order tensors are filled.
#pragma once

#include <cstdint>
#include <vector>

#include "neap/core/program/program.h"

namespace neap {

// In N, C, H, W order.
std::vector<float> InitialValues(const Tensor& tensor, uint64_t seed);

}  // namespace neap

// Initial values of persistent tensors: a pure function of seed, tensor name and element, the same
// on every device, in every layout and in every order of filling tensors.
#pragma once

#include <cstdint>
#include <vector>

#include "neap/core/program/program.h"

namespace neap {

// The values in N, C, H, W order.
std::vector<float> InitialValues(const Tensor& tensor, uint64_t seed);

}  // namespace neap

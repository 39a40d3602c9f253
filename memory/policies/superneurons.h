// What SuperNeurons offloads eagerly (3.3.1).
#pragma once

#include <vector>

#include "neap/core/program/program.h"

namespace neap {

// By TensorId: the outputs of CONV layers (LayerTraits::hides_transfers), or what has taken their
// place (recompute/segments.h).
std::vector<bool> ConvolutionResults(const Program& program);

}  // namespace neap

// The tensors that the policies of vDNN offload: the inputs of layers, after forward (Rhu et al.,
// "vDNN: Virtualized Deep Neural Networks for Scalable, Memory-Efficient Neural Network Design",
// MICRO 2016, section 3).
#pragma once

#include <vector>

#include "neap/core/program/program.h"
#include "neap/recompute/recompute.h"

namespace neap {

// By TensorId, for Policy::eager_tensors.

// vDNN-all: the inputs of all layers.
std::vector<bool> AllInputs(const Program& program, const RunOrder& order);
// vDNN-conv: the inputs of CONV layers.
std::vector<bool> ConvolutionInputs(const Program& program, const RunOrder& order);

}  // namespace neap

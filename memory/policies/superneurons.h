// The tensors that the policies of SuperNeurons offload (Wang et al., "SuperNeurons: Dynamic GPU
// Memory Management for Training Deep Neural Networks", PPoPP 2018). The parts of the paper:
//
//   3.2    liveness             core/program/lifetimes.h
//   3.3.1  unified tensor pool  policy `offload`: ConvolutionResults, and the prefetch one CONV
//                               layer ahead of memory/transfer/overlap.h
//   3.3.2  tensor cache         policy `tensor-cache`: memory/transfer/tensor_cache.h
//   3.4    recomputation        policies `recompute-speed`, `recompute-memory` and `cost-aware`, on
//                               top of offloaded checkpoints: recompute/recompute.h
//   3.5    workspaces           every policy: memory/engines/engine_table.h
//
// Policy `superneurons` is the whole of it: the tensor cache, with or without cost-aware
// recomputation, whichever is faster.
#pragma once

#include <vector>

#include "neap/core/program/program.h"
#include "neap/recompute/recompute.h"

namespace neap {

// By TensorId, for Policy::eager_tensors.

// The outputs of CONV layers, or those kept in their place (recompute/segments.h).
std::vector<bool> ConvolutionResults(const Program& program, const RunOrder& order);
// All checkpoints of the order: the results of CONV, FC and Add layers, and those that cost-aware
// recomputation added.
std::vector<bool> CheckpointResults(const Program& program, const RunOrder& order);

}  // namespace neap

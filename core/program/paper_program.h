// The program as SuperNeurons counts it, to reproduce its published figures (Sec. 4.1.1). It can be
// planned, not run.
//
// Only activations and their gradients are counted. Layer k of L (not counting the input) runs
// forward at step k and backward at step 2L+1-k, both from 1. Backward reads x and dy for
// convolution and fully connected layers, and x, y and dy for all others, as cuDNN's legacy calls
// do (LayerTraits::paper_reads_output). ReLU and LRN write dx over dy (paper_in_place); the loss
// writes its gradient over its output.
#pragma once

#include "neap/core/program/program.h"

namespace neap {

Program BuildPaperProgram(const ResolvedGraph& graph, const ProgramOptions& options);

}  // namespace neap

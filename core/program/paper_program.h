// The program as SuperNeurons counts it, to reproduce its published figures (Sec. 4.1.1). It can be
// planned, not run.
//
// Counted are activations and their gradients, nothing else. Layer k of L (the input not counted)
// runs forward at step k and backward at step 2L+1-k, both from 1. Backward reads x and dy for
// convolution and fully connected layers; x, y and dy for all others, as cuDNN's legacy calls do
// (LayerTraits::paper_reads_output). ReLU and LRN hand dy's own bytes on as dx (paper_in_place);
// the loss makes its gradient in its output's.
#pragma once

#include "neap/core/program/program.h"

namespace neap {

Program BuildPaperProgram(const ResolvedGraph& graph, const ProgramOptions& options);

}  // namespace neap

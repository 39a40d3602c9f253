// The facts about a layer that planners may use in addition to the operands of its steps.
//
// The papers speak of CONV, FC and ACT layers. A planner that asked a layer for its type would
// silently miss a fused convolution or a user's own layer. A layer therefore declares traits, each
// documented with the decision that depends on it, and planners never ask for types.
//
//   LayerSpec spec = {.output = y, .params = {weight}};
//   spec.traits = {.checkpoint = true, .hides_transfers = true, .divisible = true};
//   program.layers[step.layer.index()].traits.checkpoint;  // how a planner reads them
//
// The defaults describe a cheap layer: its results are recomputed, and it runs on the whole batch.
#pragma once

namespace neap {

struct LayerTraits {
  // Recomputation keeps the forward result and recomputes other results from it, because running
  // the layer again is expensive (CONV and FC, SuperNeurons 3.4) or would first need a long chain
  // of other results (a sum, recompute/segments.h).
  bool checkpoint = false;
  // The kernels run long enough to hide a transfer behind them; the papers say CONV. SuperNeurons
  // (3.3.1) offloads the results of such layers and fetches them one such layer ahead; vDNN-conv
  // offloads their inputs.
  bool hides_transfers = false;
  // As independent_images, and it pays to run a step by itself in parts of the mini-batch, in any
  // phase but backward_activation (u-cuDNN, section III; core/step/divided_kernel.h).
  bool divisible = false;
  // Images do not depend on each other, and gradients of parameters are sums over them, so forward
  // and backward can be run for one part of the batch after another
  // (core/program/sub_batches.h). Steps that depend on which part it is, or on the number of parts,
  // declare StepSpec::depends_on_part.
  bool independent_images = false;
  // Images depend on each other by statistics of the batch alone, for which those of a part of it
  // may stand (ProgramOptions::batch_norm_in_parts). Excludes independent_images.
  bool coupled_by_statistics = false;
  // Steps are convolutions or products of matrices with parameter 0, as whose extents the cost
  // model sees theirs (core/plan/cost_features.h). Those of other layers with parameters are
  // passes.
  bool multiplies = false;
  // Accounting::kPaper (SuperNeurons 4.1.1, core/program/paper_program.h): whether backward reads y
  // besides x and dy, and whether dx takes the bytes of dy.
  bool paper_reads_output = true;
  bool paper_in_place = false;
  friend bool operator==(const LayerTraits&, const LayerTraits&) = default;
};

}  // namespace neap

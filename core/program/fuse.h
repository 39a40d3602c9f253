// Fusion: layers that can run as one pass over memory become one layer.
//
// A batch norm, a sum or a ReLU computes little per element, so its time is that of reading and
// writing tensors. Where such layers follow one another, one layer that computes them all reads
// every operand once and writes the result once, and the tensors between them do not exist:
//
//   conv3 -> bn3 -> add -> relu              conv3 -> bn3 (norm_pass) ->
//                    ^             becomes              ^
//   shortcut --------+                       shortcut --+
//
// A concatenation in front of a batch norm becomes a part of it, too: the batch norm reads the
// parts where they are, so the tensor that holds them all does not exist. So does a pooling behind
// it, which leaves a small tensor of a large one: a maximum per window, or a mean per image and
// channel. Means of windows stay apart: where windows overlap, elements would be computed again.
// Batch norms that are concatenated become one layer in which each writes its part of the result.
// The activations of mobile networks behind a batch norm become a part of it, as a ReLU does, and
// so do those behind a group norm or an instance norm. The scale of a residual branch, and what
// drops it, are a part of the sum behind it.
//
// A convolution takes most of its time to compute, and an addition or a ReLU of what it is about to
// store costs it nothing. It therefore comes last: it computes the ReLU behind it, unless that has
// become part of a pooling. Its bias moves into such a pooling, where the convolution's kernels
// would add it in a pass of their own, and into a GELU, which sums the bias's gradient in the pass
// that computes it. Where it is a product of matrices, it adds the other tensor of the sum behind
// it.
//
// A 1x1 convolution behind which a batch norm follows is the exception: with that, a sum and a ReLU
// it becomes matrix products that never hold its result, if the layer has enough channels and
// pixels. That saves more than any other fusion and comes first (FusionStage).
//
// Which layers become one is a table of rules, which the device has (core/step/rewrite_rules.h;
// layers/fusion/rules.h for neap's own layers). A fused layer is like others, with the steps,
// operands and traits that its Specify() returns, so planners and kernels treat it as any other. It
// has the name of the first layer, and runs where the last one ran. Its parameters keep the names
// that they have in the layers that it replaces, it draws the random numbers of the one that drew
// some, and its results have their bits, unless its header says where they differ (of layers/fusion
// fused_convolution.h, folded_convolution.h, residual_convolution.h, activated_group_norm.h,
// biased_gelu.h and residual_tail.h).
//
//   ASSIGN_OR_RETURN(ResolvedGraph graph, Resolve(net, Mode::kTraining));
//   graph = Fuse(std::move(graph), Mode::kTraining, device.description().rules);
#pragma once

#include <cstdint>

#include "neap/core/graph/graph.h"
#include "neap/core/step/rewrite_rules.h"

namespace neap {

struct FusionOptions {
  // Whether the rules of FusionStage::kFold are applied.
  bool folds = false;
  // Gradients of parameters are sums over parts of a batch or over batches, so no layer is made
  // whose steps read one of its own.
  bool sums_gradients = false;
  // The batch with which a layer must gain (FusionRule::gains); 0: that of the graph.
  int64_t batch = 0;
};

// Fuses each layer into the layer that alone reads its output, as long as there is a rule for both.
// Of several inputs with which a layer could be fused, it takes the one that was computed last.
// Layers stay apart where the sum of some tensor's gradients would be computed in another order.
// `mode` is that of Resolve(). *Complexity*: O(layers + edges) times rules, and for inputs with
// several readers the layers between those fused.
ResolvedGraph Fuse(ResolvedGraph graph, Mode mode, const RewriteRules& rules,
                   const FusionOptions& options = {});

}  // namespace neap

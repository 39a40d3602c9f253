// Sub-batches: a batch is run in equal parts, one after another, so that only the activations of
// one part are in memory at a time (moDNN, section 5.1).
//
//   conv1[1/2] forward ... loss[1/2] ... conv1[1/2] backward_params      writes the gradients
//   conv1[2/2] forward ... loss[2/2] ... conv1[2/2] backward_params      adds to them
//   conv1 update                                                         once for the whole batch
//
// It is the same training: the loss is the mean over the whole batch, dropout has the masks of the
// whole batch, and gradients are sums over all images, in another order. For one number of parts,
// the bits are the same under every policy and budget.
//
// Layers that couple the images of a batch, such as batch normalisation in training, cannot be run
// in parts. A layer declares that it does not couple them (LayerTraits::independent_images), and
// which of its steps depend on the part (StepSpec::depends_on_part).
//
//   ASSIGN_OR_RETURN(ResolvedGraph part, InSubBatches(graph, Mode::kTraining, 4));
//   part.layers[0].spec.output.shape.n();  // a quarter of the batch
//
// This is the part of lowering that knows layers. BuildProgram() makes the steps of all parts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "neap/core/graph/graph.h"
#include "neap/core/step/layer.h"

namespace neap {

// The graph with the tensors of one of `count` parts of its batch; its options are unchanged.
// `mode` is that of Resolve().
// Errors: INVALID_ARGUMENT if `count` does not divide the batch, or naming a layer that couples the
// images of a batch, or that writes a state to which its kernels cannot add.
absl::StatusOr<ResolvedGraph> InSubBatches(ResolvedGraph graph, Mode mode, int64_t count);

// The name of a layer or tensor of a sub-batch: "conv1[2/4]". That of the whole batch has no
// suffix.
std::string NameInSubBatch(std::string_view name, const SubBatch& sub_batch);

}  // namespace neap

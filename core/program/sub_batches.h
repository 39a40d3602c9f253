// Sub-batches: a batch is run in parts, one after another, so that only the activations of one part
// are in memory at a time (moDNN, section 5.1).
//
//   conv1[1/3] forward ... loss[1/3] ... conv1[1/3] backward_params      writes the gradients
//   conv1[2/3] forward ... loss[2/3] ... conv1[2/3] backward_params      adds to them
//   conv1[3/3] forward ... loss[3/3] ... conv1[3/3] backward_params      the same, a shorter part
//   conv1 update                                                         once for the whole batch
//
// All parts have the same number of images, so they share kernels and sizes of tensors. If that
// number does not divide the batch, the last part has the rest.
//
// It is the same training: the loss is the mean over the whole batch, so every image has the same
// weight; dropout has the masks of the whole batch; and gradients are sums over all images, in
// another order. For one number of parts, the bits are the same under every policy and budget.
//
// Layers that couple the images of a batch, such as batch normalisation in training, cannot be run
// in parts. A layer declares that it does not couple them (LayerTraits::independent_images), and
// which of its steps depend on the part (StepSpec::depends_on_part). What couples them by
// statistics alone (LayerTraits::coupled_by_statistics) can have those of each part instead
// (ProgramOptions::batch_norm_in_parts). That is another training: running statistics are updated
// once for each part, in the order of the parts.
//
//   ASSIGN_OR_RETURN(const PartGraphs parts, InSubBatches(graph, {.sub_batches = 3}));
//   parts.each.layers[0].spec.output.shape.n();   // 4 images of 10
//   parts.last->layers[0].spec.output.shape.n();  // 2
//
// This is the part of lowering that knows layers. BuildProgram() makes the steps of all parts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "neap/core/graph/graph.h"
#include "neap/core/program/program.h"
#include "neap/core/step/layer.h"

namespace neap {

// The parts in which a batch is run.
struct PartSizes {
  int64_t count = 1;
  int64_t images = 0;  // in each part but the last
  int64_t last = 0;    // images in the last part, at most `images`

  SubBatch Part(int64_t index) const {
    return {index, count, index * images, index + 1 == count ? last : images};
  }
  friend bool operator==(const PartSizes&, const PartSizes&) = default;
};

// The parts if `asked` are asked for, 1 to `batch`: of the fewest images each with which there are
// no more than `asked`. These may be fewer. 10 images in 4 parts are 3 + 3 + 3 + 1, and 4 + 4 + 2
// in 3; in 6, they are five parts of 2.
constexpr PartSizes DivideBatch(int64_t batch, int64_t asked) {
  const int64_t images = (batch + asked - 1) / asked;
  const int64_t count = (batch + images - 1) / images;
  return {.count = count, .images = images, .last = batch - (count - 1) * images};
}

// The graph with the tensors of a part of its batch; its options are unchanged.
struct PartGraphs {
  PartSizes sizes;
  ResolvedGraph each;                      // of every part of PartSizes::images
  std::optional<ResolvedGraph> last = {};  // of the last part, if it is shorter
  bool has_statistics_of_parts = false;    // of some layer
};

// Divides the batch into ProgramOptions::sub_batches. `graph` is the result of Resolve() with the
// mode of the options, or of Fuse().
// Errors: INVALID_ARGUMENT if there are fewer images than parts, if batch norms are to have
// statistics of all ranks and of each part, or naming a layer that couples the images of a batch,
// that would have variances of one value in a part, or that needs a state or a gradient of each
// part alone.
absl::StatusOr<PartGraphs> InSubBatches(ResolvedGraph graph, const ProgramOptions& options);

// The name of a layer or tensor of a sub-batch: "conv1[2/4]". That of the whole batch has no
// suffix.
std::string NameInSubBatch(std::string_view name, const SubBatch& sub_batch);

}  // namespace neap

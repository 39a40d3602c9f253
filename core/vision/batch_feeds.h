// A batch of images, or of tokens, with labels or targets, as the feeds of a network that takes no
// more than these.
//
//   ASSIGN_OR_RETURN(const BatchFeeds given, BatchFeeds::Of(batch, program));
//   RETURN_IF_ERROR(staging.Send(given.feeds(), scalars, program, executor));
//
// The images, or the tokens if it reads integers, are the values of the only input; the tensor with
// which the main loss compares its predictions is the only target. Errors: INVALID_ARGUMENT for a
// network with others, whose feeds have to be given by name.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "neap/core/program/feeds.h"
#include "neap/core/program/program.h"
#include "neap/core/vision/batch.h"

namespace neap {

// The ports of a network of images, and their extents.
struct ImagePorts {
  const Port* images = nullptr;
  const Port* target = nullptr;  // labels, or targets
  const LossPort* loss = nullptr;
  bool reads_targets = false;
  bool reads_tokens = false;
  // Elements of one image; its labels: one, or one for each pixel; and its targets, 0 if the loss
  // reads labels.
  int64_t values = 0, labels = 0, targets = 0;
};
// The ports refer to the program.
absl::StatusOr<ImagePorts> ImagePortsOf(const Program& program);

// The shape of the batch's images, if it states their size; otherwise an empty shape.
std::vector<int64_t> StatedShape(const Batch& batch, const Program& program,
                                 const ImagePorts& ports);

class BatchFeeds {
 public:
  // Refers to the batch. In training the batch is of the network's size; in inference it may have
  // fewer images. Errors: INVALID_ARGUMENT for a batch of the wrong size, for images on the device
  // that are not a whole batch, or, naming the image or pixel, for a label that is not one of the
  // network's classes.
  static absl::StatusOr<BatchFeeds> Of(const Batch& batch, const Program& program);
  // Feeds of images without labels, n times their values. Errors: those of Of(), so also
  // INVALID_ARGUMENT for a network that reads tokens.
  static absl::StatusOr<BatchFeeds> OfImages(absl::Span<const float> images,
                                             const Program& program);

  BatchFeeds(BatchFeeds&&) = default;
  BatchFeeds& operator=(BatchFeeds&&) = default;

  const Feeds& feeds() const { return feeds_; }

 private:
  BatchFeeds() = default;
  Feeds feeds_;
  std::vector<float> targets_;  // targets that stand for labels
};

}  // namespace neap

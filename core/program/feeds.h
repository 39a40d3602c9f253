// What the caller gives for an iteration: the values of the program's feeds, by name.
//
//   const Feeds feeds = {{.name = "image", .floats = pixels}, {.name = "kind", .integers = ids}};
//   ASSIGN_OR_RETURN(const int64_t examples, ExamplesIn(feeds, program));
//
// Values are in the order of the feed's shape, the outermost axis first: N, C, H, W for images. In
// inference, feeds that only losses read may be left out, and there may be fewer examples than the
// network's batch.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "neap/core/program/program.h"

namespace neap {

// The label of an image or pixel without a class. It adds nothing to the gradients and to the loss,
// and never counts as correct. A training step's loss and gradients are still means over all
// labels, so that sub-batches and ranks weigh every image alike; the loss of an evaluation is the
// mean over the labels that are classes, as torch.nn.CrossEntropyLoss's over those that are not
// ignore_index.
inline constexpr int32_t kNoLabel = -1;

// The target of an element for which there is none. It adds nothing to the gradients and to the
// loss, which is the mean over all elements in training, and over those with targets in evaluation.
inline constexpr float kNoTarget = std::numeric_limits<float>::quiet_NaN();

struct FeedValue {
  std::string name;
  absl::Span<const float> floats = {};      // of a feed of floating-point numbers
  absl::Span<const int32_t> integers = {};  // of a feed of integers
  // `floats` are in the memory of the session's device, and are read until the step has finished,
  // after the work that was enqueued on CUDA's legacy default stream before the call. Others are
  // read until the call returns.
  bool on_device = false;
  // {examples, ...}; empty: as the network's feed. Of a session that trains several sizes
  // (Graph::Sizes()), a step has that of the shapes that are given.
  std::vector<int64_t> shape = {};
};
using Feeds = std::vector<FeedValue>;

// The value of that name; null if there is none.
const FeedValue* FindFeed(const Feeds& feeds, std::string_view name);

// FeedValue::shape.
Shape StatedShape(const FeedValue& value);

// The number of examples for which there are values: the same in all feeds, and in training the
// network's batch. Errors: INVALID_ARGUMENT naming the feed that is missing, unknown, given twice,
// or has values of another type or number, for labels that are not classes of the loss, and for
// integers that a layer cannot look up.
absl::StatusOr<int64_t> ExamplesIn(const Feeds& feeds, const Program& program);

// Of a program that pauses: INVALID_ARGUMENT, naming the output, unless there are as many floats as
// an output has elements for each output whose gradient the program takes, under its name, and for
// no other. If the loss is scaled they lie in the host's memory, because they are multiplied by the
// scale there before they are rounded.
absl::Status CheckGivenGradients(const Feeds& gradients, const Program& program);

// INVALID_ARGUMENT, naming the image, or the position in it, for a label that is neither a class
// from 0 nor kNoLabel. `shape` is {N}, or {N, H, W} and the like with 1 to 3 axes.
absl::Status CheckLabels(absl::Span<const int32_t> labels, const Shape& shape, int64_t classes);

// Of the labels or targets that a loss compares its predictions with: those other than kNoLabel and
// kNoTarget, and the examples that have any.
struct KnownTargets {
  int64_t values = 0, examples = 0;
};
// `target` is what is given for a feed of the shape `targets`, of any number of examples. Of labels
// that are finer than the predictions, those that the loss reads count (core/graph/label_grid.h).
KnownTargets CountKnown(const FeedValue& target, const Shape& targets, const Shape& predictions);

}  // namespace neap

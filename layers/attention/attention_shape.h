// The extents of an attention step and the places of its heads in memory, as kernels of every
// backend read them (layers/attention/attention.h): of a key, dimension d of a head at a position
// is element key.At(image, head, position) + d * key.dim_step of the operand key.tensor.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "neap/core/step/operands.h"
#include "neap/core/step/step_signature.h"
#include "neap/layers/attention/attention.h"
#include "neap/layers/steps/window_places.h"

namespace neap {

// The heads of a tensor {N, channels, positions}, or of some of its channels. The steps are
// elements from one to the next.
struct Heads {
  Operand tensor;
  int64_t count = 1;  // heads
  int64_t dims = 1;   // of each
  int64_t first = 0;  // the element with which the first head begins
  int64_t image_step = 0, head_step = 0, position_step = 0, dim_step = 0;
  // Of an image by itself, `sets` sequences one behind the other: images are numbered through.
  int64_t sets = 1, set_step = 0;

  // The first dimension of a head at a position.
  int64_t At(int64_t image, int64_t head, int64_t position) const {
    return first + image / sets * image_step + image % sets * set_step + head * head_step +
           position * position_step;
  }
  // The gradient of an input, which has the same steps.
  Operand gradient() const { return {Slot::kInputGrad, tensor.index}; }
};

// What is added to the scores of a head: a tensor for each image, or the parameter. The steps of a
// tensor with one head, and of the parameter from image to image, are 0.
struct AttentionBias {
  Operand value, gradient;
  int64_t image_step = 0, head_step = 0, query_step = 0, key_step = 0;
  int64_t sets = 1, set_step = 0;  // as of heads
  // Of a table {offsets, heads}, whose steps are those of its heads and rows: head_step, key_step.
  std::optional<WindowPlaces> windows = std::nullopt;

  int64_t At(int64_t image, int64_t head, int64_t query) const {
    return image / sets * image_step + image % sets * set_step + head * head_step +
           query * query_step;
  }
};

// Sequences of one image count as images of their own. Where the steps from one to the next are
// those from an image's last to the next image's first, as with channels last, there is one in
// each.
struct AttentionShape {
  int64_t images = 1, queries = 1, keys = 1;
  bool causal = false;
  float scale = 1;
  int64_t rotary_dims = 0;
  float rotary_base = 1;
  Heads query, key, value, output;
  std::optional<AttentionBias> bias;

  int64_t group() const { return query.count / key.count; }  // heads that share key and value
  // A query position reads so many key positions, the first ones.
  int64_t KeysOf(int64_t query_position) const {
    return causal ? std::min(keys, query_position + 1) : keys;
  }
};

// The sequences in each image of a tensor with at least as many spatial axes as the layer has.
int64_t SequencesOf(const Attention& layer, const Shape& shape);

// Of inputs that suit the layer: the dimensions of a head of query and key.
int64_t HeadDimOf(const Attention& layer, const LayerContext& context);

// Of a step of an Attention.
AttentionShape AttentionShapeOf(const StepSignature& signature);

}  // namespace neap

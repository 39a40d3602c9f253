// The networks of this folder with the options that names take (nets/registry.h).
#pragma once

#include "neap/core/graph/graph.h"
#include "neap/nets/registry.h"
#include "neap/nets/transformers/gpt2.h"
#include "neap/nets/transformers/swin.h"
#include "neap/nets/transformers/vision_transformer.h"

namespace neap::nets {

// The image is the number of tokens, the classes are the vocabulary, and the depth is the number of
// blocks.
Graph Gpt2Of(Gpt2Variant variant, const NetOptions& options);
template <const Gpt2Variant& kVariant>
Graph Gpt2ByName(const NetOptions& options) {
  return Gpt2Of(kVariant, options);
}

Graph VisionTransformerOf(const VisionTransformerVariant& variant, const NetOptions& options);
template <const VisionTransformerVariant& kVariant>
Graph VisionTransformerByName(const NetOptions& options) {
  return VisionTransformerOf(kVariant, options);
}

Graph SwinOf(const SwinVariant& variant, const NetOptions& options);
template <const SwinVariant& kVariant>
Graph SwinByName(const NetOptions& options) {
  return SwinOf(kVariant, options);
}

}  // namespace neap::nets

#include "neap/nets/transformers/by_name.h"

namespace neap::nets {

Graph Gpt2Of(Gpt2Variant variant, const NetOptions& options) {
  const Gpt2Options base;
  variant.blocks = options.depth.value_or(variant.blocks);
  return Gpt2({.variant = variant,
               .tokens = options.image.value_or(base.tokens),
               .vocabulary = options.classes.value_or(base.vocabulary),
               .batch = options.batch.value_or(base.batch),
               .dtype = options.dtype,
               .layout = options.layout,
               .dropout = options.dropout.value_or(base.dropout)});
}

Graph VisionTransformerOf(const VisionTransformerVariant& variant, const NetOptions& options) {
  const VisionTransformerOptions base;
  return VisionTransformer({.variant = variant,
                            .image = options.image.value_or(base.image),
                            .classes = options.classes.value_or(base.classes),
                            .batch = options.batch.value_or(base.batch),
                            .channels = options.channels.value_or(base.channels),
                            .dtype = options.dtype,
                            .layout = options.layout});
}

Graph SwinOf(const SwinVariant& variant, const NetOptions& options) {
  const SwinOptions base;
  return Swin({.variant = variant,
               .image = options.image.value_or(base.image),
               .classes = options.classes.value_or(base.classes),
               .batch = options.batch.value_or(base.batch),
               .channels = options.channels.value_or(base.channels),
               .dtype = options.dtype,
               .layout = options.layout});
}

}  // namespace neap::nets

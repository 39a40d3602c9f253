#include "neap/nets/by_name/entry.h"
#include "neap/nets/transformers/gpt2.h"
#include "neap/nets/transformers/swin.h"
#include "neap/nets/transformers/vision_transformer.h"

namespace neap::nets {
namespace {

// The image is the number of tokens, the classes are the vocabulary, and the depth is the number of
// blocks.
template <const Gpt2Variant& kVariant>
Graph Gpt2ByName(const NetOptions& options) {
  const Gpt2Options base;
  Gpt2Variant variant = kVariant;
  variant.blocks = options.depth.value_or(variant.blocks);
  return Gpt2({.variant = variant,
               .tokens = options.image.value_or(base.tokens),
               .vocabulary = options.classes.value_or(base.vocabulary),
               .batch = options.batch.value_or(base.batch),
               .dtype = options.dtype,
               .layout = options.layout,
               .dropout = options.dropout.value_or(base.dropout)});
}

template <const VisionTransformerVariant& kVariant>
Graph VisionTransformerByName(const NetOptions& options) {
  return VisionTransformer(WithOverrides(VisionTransformerOptions{.variant = kVariant}, options));
}
template <const SwinVariant& kVariant>
Graph SwinByName(const NetOptions& options) {
  return Swin(WithOverrides(SwinOptions{.variant = kVariant}, options));
}

constexpr Takes kText = {.dropout = true, .depths = {.step = 1}};
constexpr Takes kPatches = {.image_unit = kVitPatch};

constexpr Network ForText(std::string_view name, std::string_view description) {
  return {.name = name, .description = description, .image = 1024, .classes = 50257, .axes = 1};
}

constexpr Entry kTransformers[] = {
    {ForImageNet("vit_s_16", "ViT-S/16: the size of timm's, the names of torchvision's"),
     VisionTransformerByName<kVitS16>, kPatches},
    {ForImageNet("vit_b_16", "ViT-B/16 as in torchvision"), VisionTransformerByName<kVitB16>,
     kPatches},
    {ForImageNet("vit_l_16", "ViT-L/16 as in torchvision"), VisionTransformerByName<kVitL16>,
     kPatches},
    {ForImageNet("swin_t", "Swin-T as in torchvision"), SwinByName<kSwinT>},
    {ForImageNet("swin_s", "Swin-S as in torchvision"), SwinByName<kSwinS>},
    {ForImageNet("swin_b", "Swin-B as in torchvision"), SwinByName<kSwinB>},
    {ForText("gpt2", "GPT-2 of 124M parameters as in Hugging Face's transformers"),
     Gpt2ByName<kGpt2>, kText},
    {ForText("gpt2-medium", "GPT-2 of 355M parameters"), Gpt2ByName<kGpt2Medium>, kText},
    {ForText("gpt2-large", "GPT-2 of 774M parameters"), Gpt2ByName<kGpt2Large>, kText},
    {ForText("gpt2-xl", "GPT-2 of 1.5B parameters"), Gpt2ByName<kGpt2Xl>, kText},
};

}  // namespace

absl::Span<const Entry> Transformers() { return kTransformers; }

}  // namespace neap::nets

#include "neap/nets/by_name/entry.h"
#include "neap/nets/by_name/nnunet_by_name.h"
#include "neap/nets/diffusion/diffusion_unet.h"
#include "neap/nets/residual/resnet.h"
#include "neap/nets/segmentation/dilated_resnet.h"
#include "neap/nets/segmentation/fcn.h"
#include "neap/nets/segmentation/resnet_decoders.h"
#include "neap/nets/segmentation/unet.h"
#include "neap/nets/segmentation/unet3d.h"

namespace neap::nets {
namespace {

template <auto kBuild, const ResNetVariant& kEncoder>
Graph DecoderOf(const NetOptions& options) {
  return kBuild(WithOverrides(ResNetDecoderOptions{.encoder = kEncoder}, options));
}
template <auto kBuild, const ResNetVariant& kBackbone>
Graph DilatedResNetOf(const NetOptions& options) {
  return kBuild(WithOverrides(DilatedResNetOptions{.backbone = kBackbone}, options));
}

Graph DiffusionUNetByName(DiffusionUNetOptions base, const NetOptions& options) {
  base.graph.batch = options.batch.value_or(base.graph.batch);
  base.graph.dtype = options.dtype;
  base.graph.layout = options.layout;
  base.image = options.image.value_or(base.image);
  base.channels = options.channels.value_or(base.channels);
  base.out_channels = options.classes.value_or(base.out_channels);
  base.dropout = options.dropout.value_or(base.dropout);
  return DiffusionUNet(base);
}

// 20 classes of PASCAL VOC and the background.
constexpr Network ForVoc(std::string_view name, std::string_view description, int64_t image = 512) {
  return {.name = name, .description = description, .image = image, .channels = 3, .classes = 21};
}

constexpr Entry kDecoders[] = {
    {{"fcn8s", "FCN-8s on VGG-16: a label for each pixel", 500, 3, 21},
     [](const NetOptions& o) { return Fcn8s(WithOverrides(Fcn8sOptions{}, o)); },
     kDropout},
    {{"unet", "U-Net with padded convolutions: a label for each pixel", 512, 1, 2},
     [](const NetOptions& o) { return UNet(WithOverrides(UNetOptions{}, o)); },
     {.image_unit = 16}},
    {{"unet-bn", "U-Net with batch norms as in Pytorch-UNet: a label for each pixel", 512, 3, 2},
     [](const NetOptions& o) {
       return UNet(WithOverrides(UNetOptions{.channels = 3, .batch_norm = true}, o));
     },
     {.image_unit = 16}},
    {ForVoc("unet-resnet18", "U-Net on ResNet-18 as in segmentation_models_pytorch"),
     DecoderOf<ResNetUNet, kResNet18>,
     {.image_unit = 32}},
    {ForVoc("unet-resnet34", "U-Net on ResNet-34 as in segmentation_models_pytorch"),
     DecoderOf<ResNetUNet, kResNet34>,
     {.image_unit = 32}},
    {ForVoc("unet-resnet50", "U-Net on ResNet-50 as in segmentation_models_pytorch"),
     DecoderOf<ResNetUNet, kResNet50>,
     {.image_unit = 32}},
    {ForVoc("unet-resnet101", "U-Net on ResNet-101 as in segmentation_models_pytorch"),
     DecoderOf<ResNetUNet, kResNet101>,
     {.image_unit = 32}},
    {ForVoc("fpn-resnet18", "FPN on ResNet-18 as in segmentation_models_pytorch"),
     DecoderOf<ResNetFpn, kResNet18>,
     {.image_unit = 32}},
    {ForVoc("fpn-resnet34", "FPN on ResNet-34 as in segmentation_models_pytorch"),
     DecoderOf<ResNetFpn, kResNet34>,
     {.image_unit = 32}},
    {ForVoc("fpn-resnet50", "FPN on ResNet-50 as in segmentation_models_pytorch"),
     DecoderOf<ResNetFpn, kResNet50>,
     {.image_unit = 32}},
    {ForVoc("fpn-resnet101", "FPN on ResNet-101 as in segmentation_models_pytorch"),
     DecoderOf<ResNetFpn, kResNet101>,
     {.image_unit = 32}},
    {ForVoc("deeplabv3plus-resnet18", "DeepLabV3+ on ResNet-18 as in segmentation_models_pytorch"),
     DecoderOf<DeepLabV3Plus, kResNet18>,
     {.image_unit = 16}},
    {ForVoc("deeplabv3plus-resnet34", "DeepLabV3+ on ResNet-34 as in segmentation_models_pytorch"),
     DecoderOf<DeepLabV3Plus, kResNet34>,
     {.image_unit = 16}},
    {ForVoc("deeplabv3plus-resnet50", "DeepLabV3+ on ResNet-50 as in segmentation_models_pytorch"),
     DecoderOf<DeepLabV3Plus, kResNet50>,
     {.image_unit = 16}},
    {ForVoc("deeplabv3plus-resnet101",
            "DeepLabV3+ on ResNet-101 as in segmentation_models_pytorch"),
     DecoderOf<DeepLabV3Plus, kResNet101>,
     {.image_unit = 16}},
    {ForVoc("deeplabv3_resnet50",
            "DeepLabV3 on ResNet-50 as in torchvision, with --aux-logits for its auxiliary head",
            480),
     DilatedResNetOf<DeepLabV3, kResNet50>,
     {.aux_image = 8}},
    {ForVoc("deeplabv3_resnet101",
            "DeepLabV3 on ResNet-101 as in torchvision, with --aux-logits for its auxiliary head",
            480),
     DilatedResNetOf<DeepLabV3, kResNet101>,
     {.aux_image = 8}},
    {ForVoc("fcn_resnet50",
            "FCN on ResNet-50 as in torchvision, with --aux-logits for its auxiliary head", 480),
     DilatedResNetOf<FcnResNet, kResNet50>,
     {.aux_image = 8}},
    {ForVoc("fcn_resnet101",
            "FCN on ResNet-101 as in torchvision, with --aux-logits for its auxiliary head", 480),
     DilatedResNetOf<FcnResNet, kResNet101>,
     {.aux_image = 8}},
    {{"nnunet2d", "nnU-Net's plain U-Net for images", 512, 1, 2}, NnUNet2dByName},
    {{"nnunet3d", "nnU-Net's plain U-Net for volumes", 128, 1, 2, 3}, NnUNet3dByName},
    {{"resenc-unet-m", "nnU-Net with a residual encoder, preset M", kResEncEdges[0], 1, 2, 3},
     ResEncUNetByName<0>},
    {{"resenc-unet-l", "nnU-Net with a residual encoder, preset L", kResEncEdges[1], 1, 2, 3},
     ResEncUNetByName<1>},
    {{"resenc-unet-xl", "nnU-Net with a residual encoder, preset XL", kResEncEdges[2], 1, 2, 3},
     ResEncUNetByName<2>},
    {{"unet3d", "MLPerf's 3-D U-Net for KiTS19", 128, 1, 3, 3},
     [](const NetOptions& o) { return UNet3d(WithOverrides(UNet3dOptions{}, o)); },
     {.image_unit = 32}},
    {{"ddpm-cifar10", "DDPM's U-Net for CIFAR-10: the noise in an image", 32, 3, 3},
     [](const NetOptions& o) { return DiffusionUNetByName({}, o); },
     kDropout},
    {{"ddpm-256", "DDPM's U-Net for 256x256 pixels: the noise in an image", 256, 3, 3},
     [](const NetOptions& o) { return DiffusionUNetByName(DiffusionUNet256(), o); },
     kDropout},
};

}  // namespace

absl::Span<const Entry> Decoders() { return kDecoders; }

}  // namespace neap::nets

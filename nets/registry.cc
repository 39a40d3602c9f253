#include "neap/nets/registry.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "neap/core/base/edit_distance.h"
#include "neap/core/base/status_macros.h"
#include "neap/nets/alexnet.h"
#include "neap/nets/by_name/check_options.h"
#include "neap/nets/densenet.h"
#include "neap/nets/diffusion/diffusion_unet.h"
#include "neap/nets/inception/googlenet.h"
#include "neap/nets/inception/inception_v3.h"
#include "neap/nets/inception/inception_v4.h"
#include "neap/nets/lenet.h"
#include "neap/nets/mobile/efficientnet.h"
#include "neap/nets/mobile/mobilenet_v2.h"
#include "neap/nets/mobile/mobilenet_v3.h"
#include "neap/nets/residual/convnext.h"
#include "neap/nets/residual/regnet.h"
#include "neap/nets/residual/resnet.h"
#include "neap/nets/segmentation/by_name.h"
#include "neap/nets/segmentation/dilated_resnet.h"
#include "neap/nets/segmentation/fcn.h"
#include "neap/nets/segmentation/resnet_decoders.h"
#include "neap/nets/segmentation/unet.h"
#include "neap/nets/segmentation/unet3d.h"
#include "neap/nets/transformers/by_name.h"
#include "neap/nets/vgg.h"

namespace neap::nets {
namespace {

// `base` with the options that every network has.
template <typename Options>
Options WithOverrides(Options base, const NetOptions& options) {
  base.batch = options.batch.value_or(base.batch);
  base.image = options.image.value_or(base.image);
  base.channels = options.channels.value_or(base.channels);
  base.classes = options.classes.value_or(base.classes);
  base.dtype = options.dtype;
  base.layout = options.layout;
  if constexpr (requires { base.dropout; }) base.dropout = options.dropout.value_or(base.dropout);
  if constexpr (requires { base.aux_logits; }) base.aux_logits = options.aux_logits;
  return base;
}

using Blocks = std::array<int64_t, 4>;

template <const ResNetVariant& kVariant>
Graph ResNetOf(const NetOptions& options) {
  return ResNet(WithOverrides(
      ResNetOptions{.blocks = kVariant.blocks, .bottleneck = kVariant.bottleneck}, options));
}
template <int64_t kThirdStage, int64_t kGroups, int64_t kWidthPerGroup>
Graph WideResNet(const NetOptions& options) {
  return ResNet(WithOverrides(
      ResNetOptions{
          .blocks = {3, 4, kThirdStage, 3}, .groups = kGroups, .width_per_group = kWidthPerGroup},
      options));
}
Graph ResNetByBlocksOrDepth(const NetOptions& options) {
  ResNetOptions base = {.blocks = options.blocks.value_or(kResNet50.blocks)};
  if (options.depth) base = ResNetOfDepth(*options.depth);
  return ResNet(WithOverrides(base, options));
}
template <int64_t kDepth>
Graph ResNetForCifar(const NetOptions& options) {
  const int64_t n = (options.depth.value_or(kDepth) - 2) / 6;
  return CifarResNet(WithOverrides(CifarResNetOptions{.n = n}, options));
}

template <bool kLarge>
Graph MobileNetV3Of(const NetOptions& options) {
  return MobileNetV3(WithOverrides(MobileNetV3Options{.large = kLarge}, options));
}
template <int kVariant>
Graph EfficientNetOf(const NetOptions& options) {
  return EfficientNet(WithOverrides(EfficientNetB(kVariant), options));
}

template <const ConvNeXtVariant& kVariant>
Graph ConvNeXtOf(const NetOptions& options) {
  return ConvNeXt(WithOverrides(ConvNeXtOptions{.variant = kVariant}, options));
}

template <auto kBuild, const ResNetVariant& kEncoder>
Graph DecoderOf(const NetOptions& options) {
  return kBuild(WithOverrides(ResNetDecoderOptions{.encoder = kEncoder}, options));
}
template <auto kBuild, const ResNetVariant& kBackbone>
Graph DilatedResNetOf(const NetOptions& options) {
  return kBuild(WithOverrides(DilatedResNetOptions{.backbone = kBackbone}, options));
}

template <int64_t... kBlocks>
Graph DenseNetOf(const NetOptions& options) {
  DenseNetOptions base = {.blocks = options.blocks.value_or(Blocks{kBlocks...})};
  base.growth_rate = options.growth_rate.value_or(base.growth_rate);
  return DenseNet(WithOverrides(base, options));
}
Graph DenseNetByBlocksOrDepth(const NetOptions& given) {
  NetOptions options = given;
  if (options.depth) options.blocks = DenseNetBlocks(*options.depth);
  return DenseNetOf<6, 12, 24, 16>(options);
}
Graph DenseNetForCifar(const NetOptions& options, CifarDenseNetOptions base) {
  base.depth = options.depth.value_or(base.depth);
  base.growth_rate = options.growth_rate.value_or(base.growth_rate);
  return CifarDenseNet(WithOverrides(base, options));
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

constexpr Takes kDropout = {.dropout = true};
constexpr Takes Auxiliary(int64_t least_image) {
  return {.dropout = true, .aux_image = least_image};
}
constexpr Takes kText = {.dropout = true, .depths = {.step = 1}};
constexpr Takes kPatches = {.image_unit = kVitPatch};
constexpr Takes kDeep = {.blocks = true, .depths = {.step = 3, .offset = 2 + 3 * (6 + 32 + 6)}};
constexpr Takes kDense = {.most_elements = kMaxDenseElements};
constexpr Takes Dense(bool blocks, Depths depths) {
  Takes takes = kDense;
  takes.blocks = blocks;
  takes.growth_rate = true;
  takes.depths = depths;
  takes.most_blocks = kMaxDenseLayers;
  return takes;
}

struct Entry {
  Network network;
  Graph (*build)(const NetOptions& options);
  Takes takes = {};
};

constexpr Network ForImageNet(std::string_view name, std::string_view description,
                              int64_t image = 224) {
  return {.name = name, .description = description, .image = image, .channels = 3, .classes = 1000};
}
constexpr Network ForCifar(std::string_view name, std::string_view description) {
  return {.name = name, .description = description, .image = 32, .channels = 3, .classes = 10};
}

constexpr Network ForText(std::string_view name, std::string_view description) {
  return {.name = name, .description = description, .image = 1024, .classes = 50257, .axes = 1};
}
// 20 classes of PASCAL VOC and the background.
constexpr Network ForVoc(std::string_view name, std::string_view description, int64_t image = 512) {
  return {.name = name, .description = description, .image = image, .channels = 3, .classes = 21};
}

constexpr Entry kEntries[] = {
    {{"lenet", "LeNet-5 for digits, Caffe's variant", 28, 1, 10},
     [](const NetOptions& o) { return LeNet(WithOverrides(LeNetOptions{}, o)); }},
    {ForImageNet("alexnet", "AlexNet of 2012 in one tower: the 23 layers of the SuperNeurons paper",
                 227),
     [](const NetOptions& o) { return AlexNetPaper(WithOverrides(AlexNetPaperOptions{}, o)); },
     kDropout},
    {ForImageNet("alexnet-torchvision", "AlexNet as in torchvision"),
     [](const NetOptions& o) { return AlexNet(WithOverrides(AlexNetOptions{}, o)); }, kDropout},
    {ForImageNet("vgg13", "VGG-13 as in torchvision"),
     [](const NetOptions& o) { return Vgg(WithOverrides(VggOptions{.convolutions = kVgg13}, o)); },
     kDropout},
    {ForImageNet("vgg16", "VGG-16 as in torchvision"),
     [](const NetOptions& o) { return Vgg(WithOverrides(VggOptions{.convolutions = kVgg16}, o)); },
     kDropout},
    {ForImageNet("vgg19", "VGG-19 as in torchvision"),
     [](const NetOptions& o) { return Vgg(WithOverrides(VggOptions{.convolutions = kVgg19}, o)); },
     kDropout},
    {ForImageNet("vgg101", "VGG-19 deepened to 98 convolutions, for moDNN's VGG-101"),
     [](const NetOptions& o) { return Vgg(WithOverrides(VggOptions{.convolutions = kVgg101}, o)); },
     kDropout},
    {ForImageNet("googlenet",
                 "GoogLeNet as in torchvision, with --aux-logits for its auxiliary classifiers"),
     [](const NetOptions& o) { return GoogLeNet(WithOverrides(GoogLeNetOptions{}, o)); },
     Auxiliary(63)},
    {ForImageNet("inception_v3",
                 "Inception v3 as in torchvision, with --aux-logits for its auxiliary classifier",
                 299),
     [](const NetOptions& o) { return InceptionV3(WithOverrides(InceptionV3Options{}, o)); },
     Auxiliary(299)},
    {ForImageNet("inception_v4", "Inception v4 as in timm", 299),
     [](const NetOptions& o) { return InceptionV4(WithOverrides(InceptionV4Options{}, o)); },
     kDropout},
    {ForImageNet("resnet18", "ResNet-18 as in torchvision"), ResNetOf<kResNet18>},
    {ForImageNet("resnet34", "ResNet-34 as in torchvision"), ResNetOf<kResNet34>},
    {ForImageNet("resnet50", "ResNet-50 as in torchvision"), ResNetOf<kResNet50>},
    {ForImageNet("resnet101", "ResNet-101 as in torchvision"), ResNetOf<kResNet101>},
    {ForImageNet("resnet152", "ResNet-152 as in torchvision"), ResNetOf<kResNet152>},
    {ForImageNet("wide_resnet50_2", "Wide ResNet-50-2 as in torchvision"), WideResNet<6, 1, 128>},
    {ForImageNet("wide_resnet101_2", "Wide ResNet-101-2 as in torchvision"),
     WideResNet<23, 1, 128>},
    {ForImageNet("resnext50_32x4d", "ResNeXt-50 32x4d as in torchvision"), WideResNet<6, 32, 4>},
    {ForImageNet("resnext101_32x8d", "ResNeXt-101 32x8d as in torchvision"), WideResNet<23, 32, 8>},
    {ForImageNet("resnet",
                 "bottleneck ResNet with --blocks n1,n2,n3,n4 (3,4,6,3), or with --depth 3n+134: "
                 "SuperNeurons' 6,32,n,6"),
     ResNetByBlocksOrDepth, kDeep},
    {ForCifar("resnet20", "ResNet-20 for CIFAR"), ResNetForCifar<20>},
    {ForCifar("resnet32", "ResNet-32 for CIFAR"), ResNetForCifar<32>},
    {ForCifar("resnet44", "ResNet-44 for CIFAR"), ResNetForCifar<44>},
    {ForCifar("resnet56", "ResNet-56 for CIFAR"), ResNetForCifar<56>},
    {ForCifar("resnet110", "ResNet-110 for CIFAR"), ResNetForCifar<110>},
    {ForCifar("resnet-cifar", "ResNet for CIFAR with --depth 6n+2 (20)"),
     ResNetForCifar<20>,
     {.depths = {.step = 6, .offset = 2}}},
    {ForImageNet("densenet121", "DenseNet-121 as in torchvision"), DenseNetOf<6, 12, 24, 16>,
     kDense},
    {ForImageNet("densenet169", "DenseNet-169 as in torchvision"), DenseNetOf<6, 12, 32, 32>,
     kDense},
    {ForImageNet("densenet201", "DenseNet-201 as in torchvision"), DenseNetOf<6, 12, 48, 32>,
     kDense},
    {ForImageNet("densenet264", "DenseNet-264 of the paper"), DenseNetOf<6, 12, 64, 48>, kDense},
    {ForImageNet(
         "densenet",
         "DenseNet with --blocks n1,n2,n3,n4 (6,12,24,16), or with --depth 2n+43 (121, 169, "
         "201 and 265 as in the paper), --growth-rate (32)"),
     DenseNetByBlocksOrDepth, Dense(true, {.step = 2, .offset = 43})},
    {ForCifar("densenet-cifar", "DenseNet for CIFAR with --depth 3n+4 (40), --growth-rate (12)"),
     [](const NetOptions& o) { return DenseNetForCifar(o, {}); },
     Dense(false, {.step = 3, .offset = 4})},
    {ForCifar("densenet-bc-cifar",
              "DenseNet-BC for CIFAR with --depth 6n+4 (100), --growth-rate (12)"),
     [](const NetOptions& o) {
       return DenseNetForCifar(o, {.depth = 100, .bottleneck = true, .compression = 0.5});
     },
     Dense(false, {.step = 6, .offset = 4})},
    {ForImageNet("mobilenet_v2", "MobileNetV2 as in torchvision"),
     [](const NetOptions& o) { return MobileNetV2(WithOverrides(MobileNetV2Options{}, o)); },
     kDropout},
    {ForImageNet("mobilenet_v3_large", "MobileNetV3-Large as in torchvision"), MobileNetV3Of<true>,
     kDropout},
    {ForImageNet("mobilenet_v3_small", "MobileNetV3-Small as in torchvision"), MobileNetV3Of<false>,
     kDropout},
    {ForImageNet("efficientnet_b0", "EfficientNet-B0 as in torchvision"), EfficientNetOf<0>,
     kDropout},
    {ForImageNet("efficientnet_b1", "EfficientNet-B1 as in torchvision", 240), EfficientNetOf<1>,
     kDropout},
    {ForImageNet("efficientnet_b2", "EfficientNet-B2 as in torchvision", 288), EfficientNetOf<2>,
     kDropout},
    {ForImageNet("efficientnet_b3", "EfficientNet-B3 as in torchvision", 300), EfficientNetOf<3>,
     kDropout},
    {ForImageNet("regnet_y_400mf", "RegNetY-400MF as in torchvision"),
     [](const NetOptions& o) { return RegNetY(WithOverrides(RegNetOptions{}, o)); }},
    {ForImageNet("regnet_y_3_2gf", "RegNetY-3.2GF as in torchvision"),
     [](const NetOptions& o) {
       return RegNetY(WithOverrides(RegNetOptions{.variant = kRegNetY3200MF}, o));
     }},
    {ForImageNet("convnext_tiny", "ConvNeXt-T as in torchvision"), ConvNeXtOf<kConvNeXtTiny>},
    {ForImageNet("convnext_small", "ConvNeXt-S as in torchvision"), ConvNeXtOf<kConvNeXtSmall>},
    {ForImageNet("convnext_base", "ConvNeXt-B as in torchvision"), ConvNeXtOf<kConvNeXtBase>},
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
    {{"fcn8s", "FCN-8s on VGG-16: a label for each pixel", 500, 3, 21},
     [](const NetOptions& o) { return Fcn8s(WithOverrides(Fcn8sOptions{}, o)); },
     kDropout},
    {{"unet", "U-Net with padded convolutions: a label for each pixel", 512, 1, 2},
     [](const NetOptions& o) { return UNet(WithOverrides(UNetOptions{}, o)); }},
    {ForVoc("unet-resnet18", "U-Net on ResNet-18 as in segmentation_models_pytorch"),
     DecoderOf<ResNetUNet, kResNet18>},
    {ForVoc("unet-resnet34", "U-Net on ResNet-34 as in segmentation_models_pytorch"),
     DecoderOf<ResNetUNet, kResNet34>},
    {ForVoc("unet-resnet50", "U-Net on ResNet-50 as in segmentation_models_pytorch"),
     DecoderOf<ResNetUNet, kResNet50>},
    {ForVoc("unet-resnet101", "U-Net on ResNet-101 as in segmentation_models_pytorch"),
     DecoderOf<ResNetUNet, kResNet101>},
    {ForVoc("fpn-resnet18", "FPN on ResNet-18 as in segmentation_models_pytorch"),
     DecoderOf<ResNetFpn, kResNet18>},
    {ForVoc("fpn-resnet34", "FPN on ResNet-34 as in segmentation_models_pytorch"),
     DecoderOf<ResNetFpn, kResNet34>},
    {ForVoc("fpn-resnet50", "FPN on ResNet-50 as in segmentation_models_pytorch"),
     DecoderOf<ResNetFpn, kResNet50>},
    {ForVoc("fpn-resnet101", "FPN on ResNet-101 as in segmentation_models_pytorch"),
     DecoderOf<ResNetFpn, kResNet101>},
    {ForVoc("deeplabv3plus-resnet18", "DeepLabV3+ on ResNet-18 as in segmentation_models_pytorch"),
     DecoderOf<DeepLabV3Plus, kResNet18>},
    {ForVoc("deeplabv3plus-resnet34", "DeepLabV3+ on ResNet-34 as in segmentation_models_pytorch"),
     DecoderOf<DeepLabV3Plus, kResNet34>},
    {ForVoc("deeplabv3plus-resnet50", "DeepLabV3+ on ResNet-50 as in segmentation_models_pytorch"),
     DecoderOf<DeepLabV3Plus, kResNet50>},
    {ForVoc("deeplabv3plus-resnet101",
            "DeepLabV3+ on ResNet-101 as in segmentation_models_pytorch"),
     DecoderOf<DeepLabV3Plus, kResNet101>},
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
     [](const NetOptions& o) { return UNet3d(WithOverrides(UNet3dOptions{}, o)); }},
    {{"ddpm-cifar10", "DDPM's U-Net for CIFAR-10: the noise in an image", 32, 3, 3},
     [](const NetOptions& o) { return DiffusionUNetByName({}, o); },
     kDropout},
    {{"ddpm-256", "DDPM's U-Net for 256x256 pixels: the noise in an image", 256, 3, 3},
     [](const NetOptions& o) { return DiffusionUNetByName(DiffusionUNet256(), o); },
     kDropout},
};

absl::Status UnknownNetwork(std::string_view name) {
  constexpr size_t kSuggestions = 3;
  const std::string given(name.substr(0, 64));
  const std::string wanted = absl::AsciiStrToLower(given);
  std::vector<std::string> known;
  for (const Entry& entry : kEntries) known.emplace_back(entry.network.name);
  std::stable_sort(known.begin(), known.end(), [&](const std::string& a, const std::string& b) {
    return EditDistance(wanted, a) < EditDistance(wanted, b);
  });
  known.resize(kSuggestions);
  return absl::NotFoundError(
      absl::StrCat("unknown network '", given, "'; closest: ", absl::StrJoin(known, ", ")));
}

absl::StatusOr<Entry> FindEntry(std::string_view name) {
  const auto* entry = std::find_if(std::begin(kEntries), std::end(kEntries),
                                   [&](const Entry& e) { return e.network.name == name; });
  if (entry == std::end(kEntries)) return UnknownNetwork(name);
  return *entry;
}

}  // namespace

std::string Network::input() const {
  if (reads_tokens()) return absl::StrCat(image, " tokens");
  std::string text = absl::StrCat(channels);
  for (int axis = 0; axis < axes; ++axis) absl::StrAppend(&text, "x", image);
  return text;
}

std::vector<Network> Networks() {
  std::vector<Network> networks;
  for (const Entry& entry : kEntries) networks.push_back(entry.network);
  return networks;
}

absl::StatusOr<Depths> DepthsOf(std::string_view name) {
  ASSIGN_OR_RETURN(const Entry entry, FindEntry(name));
  Depths depths = entry.takes.depths;
  depths.most_n = depths.step > 0 ? entry.takes.most_blocks : 0;
  return depths;
}

absl::StatusOr<Graph> Build(std::string_view name, const NetOptions& options) {
  const bool is_plan = IsPlansName(name);
  Entry entry = {.network = {.name = name, .image = 1}};
  if (!is_plan) {
    ASSIGN_OR_RETURN(entry, FindEntry(name));
  }
  RETURN_IF_ERROR(CheckOptions(entry.network, entry.takes, options));
  return is_plan ? BuildFromPlans(name, options) : entry.build(options);
}

int64_t ParameterCount(const ResolvedGraph& graph) {
  int64_t count = 0;
  absl::flat_hash_set<std::string> counted;  // layers may share some
  for (const ResolvedLayer& layer : graph.layers) {
    for (const ParamSpec& param : layer.spec.params)
      count += counted.insert(ParamName(layer, param)).second ? param.tensor.elements() : 0;
  }
  return count;
}

}  // namespace neap::nets

#include <array>
#include <cstdint>

#include "neap/nets/alexnet.h"
#include "neap/nets/by_name/entry.h"
#include "neap/nets/densenet.h"
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
#include "neap/nets/vgg.h"

namespace neap::nets {
namespace {

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

constexpr Takes Auxiliary(int64_t least_image) {
  return {.dropout = true, .aux_image = least_image};
}
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

constexpr Network ForCifar(std::string_view name, std::string_view description) {
  return {.name = name, .description = description, .image = 32, .channels = 3, .classes = 10};
}

constexpr Entry kClassifiers[] = {
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
};

}  // namespace

absl::Span<const Entry> Classifiers() { return kClassifiers; }

}  // namespace neap::nets

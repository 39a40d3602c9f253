// The examples in the headers of nets, compiled and not run.

#include <string>

#include "absl/status/status.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/graph/graph.h"
#include "neap/layers/loss/dice_loss.h"
#include "neap/layers/target_loss.h"
#include "neap/nets/alexnet.h"
#include "neap/nets/densenet.h"
#include "neap/nets/diffusion/diffusion_unet.h"
#include "neap/nets/inception/googlenet.h"
#include "neap/nets/inception/inception_units.h"
#include "neap/nets/inception/inception_v3.h"
#include "neap/nets/inception/inception_v4.h"
#include "neap/nets/initial_values.h"
#include "neap/nets/lenet.h"
#include "neap/nets/mobile/efficientnet.h"
#include "neap/nets/mobile/inverted_residual.h"
#include "neap/nets/mobile/mobilenet_v2.h"
#include "neap/nets/mobile/mobilenet_v3.h"
#include "neap/nets/registry.h"
#include "neap/nets/residual/convnext.h"
#include "neap/nets/residual/regnet.h"
#include "neap/nets/residual/residual_trunk.h"
#include "neap/nets/residual/resnet.h"
#include "neap/nets/segmentation/atrous_pyramid.h"
#include "neap/nets/segmentation/dilated_resnet.h"
#include "neap/nets/segmentation/fcn.h"
#include "neap/nets/segmentation/nnunet.h"
#include "neap/nets/segmentation/nnunet_plans.h"
#include "neap/nets/segmentation/resnet_decoders.h"
#include "neap/nets/segmentation/sequential_unit.h"
#include "neap/nets/segmentation/unet.h"
#include "neap/nets/segmentation/unet3d.h"
#include "neap/nets/transformers/gpt2.h"
#include "neap/nets/transformers/swin.h"
#include "neap/nets/transformers/vision_transformer.h"
#include "neap/nets/vgg.h"
#include "neap/nets/with_loss.h"

namespace neap::examples {

// nets/alexnet.h
void BuildAlexNets() {
  Graph net = nets::AlexNet({.batch = 128});
  Graph paper = nets::AlexNetPaper({.batch = 200});
}

// nets/residual/convnext.h
void BuildConvNeXt() { Graph net = nets::ConvNeXt({.variant = nets::kConvNeXtTiny, .batch = 128}); }

// nets/transformers/gpt2.h
void BuildGpt2() { Graph net = nets::Gpt2({.variant = nets::kGpt2Medium, .batch = 8}); }

// nets/transformers/vision_transformer.h
void BuildVisionTransformer() {
  Graph net = nets::VisionTransformer({.variant = nets::kVitB16, .batch = 128});
}

// nets/transformers/swin.h
void BuildSwin() { Graph net = nets::Swin({.variant = nets::kSwinT, .batch = 128}); }

// nets/densenet.h
void BuildDenseNets() {
  Graph densenet121 = nets::DenseNet({.batch = 64});
  Graph densenet161 = nets::DenseNet({.blocks = {6, 12, 36, 24}, .growth_rate = 48, .stem = 96});
  Graph bc100 = nets::CifarDenseNet({.depth = 100, .bottleneck = true, .compression = 0.5});
}

// nets/diffusion/diffusion_unet.h
void BuildDiffusionUNets() {
  Graph net = nets::DiffusionUNet({.graph = {.batch = 64}});
  Graph large = nets::DiffusionUNet(nets::DiffusionUNet256());
  std::vector<float> times = nets::SinusoidalEmbedding({17, 900}, 128);
}

// nets/mobile/efficientnet.h
void BuildEfficientNets() {
  Graph b0 = nets::EfficientNet({.batch = 64});
  nets::EfficientNetOptions b3 = nets::EfficientNetB(3);
  b3.batch = 32;
  Graph net = nets::EfficientNet(b3);
}

// nets/segmentation/fcn.h
void BuildFcn() { Graph net = nets::Fcn8s({.image = 384, .batch = 8}); }

// nets/inception/googlenet.h
void BuildGoogLeNet() { Graph net = nets::GoogLeNet({.batch = 32, .aux_logits = true}); }

// nets/inception/inception_units.h
void BuildInceptionStem(Graph& net) {
  using namespace nets;
  const InceptionUnits units(net, "relu");
  std::string x = units.Add("Conv2d_1a_3x3", ShrinkingUnit{32, 2}, net.Input({3, 299, 299}));
  x = units.Add("Conv2d_2b_3x3", InceptionUnit{64, 3}, x);
}

// nets/inception/inception_v3.h
void BuildInceptionV3() { Graph net = nets::InceptionV3({.batch = 32}); }

// nets/inception/inception_v4.h
void BuildInceptionV4() { Graph net = nets::InceptionV4({.batch = 32}); }

// nets/initial_values.h
Graph BeginAsVgg(const Graph& net) {
  using namespace nets;
  return WithInitialValues(net, {.convolution = kHeFanOut, .linear = kNormal001});
}

// nets/mobile/inverted_residual.h
void BuildTrunk(Graph& net) {
  using namespace nets;
  MobileTrunk trunk(net, {}, net.Input({3, 224, 224}), 3);
  trunk.AddUnit("features.0", UnitConvolution(3, 32, 2), Silu{});
  trunk.AddBlock("features.1.0",
                 {.kernel = 3, .expanded = 32, .out_channels = 16, .activation = Silu{}});
}

// nets/lenet.h
void BuildLeNet() { Graph net = nets::LeNet({.batch = 64}); }

// nets/mobile/mobilenet_v2.h
void BuildMobileNetV2() {
  Graph net = nets::MobileNetV2({.batch = 96});
  Graph small = nets::MobileNetV2({.width = 0.25, .image = 96, .classes = 10, .batch = 32});
}

// nets/mobile/mobilenet_v3.h
void BuildMobileNetV3() {
  Graph large = nets::MobileNetV3({.batch = 128});
  Graph small = nets::MobileNetV3({.large = false, .batch = 128});
}

// nets/registry.h
absl::Status BuildByName() {
  ASSIGN_OR_RETURN(Graph net, nets::Build("resnet50", {.batch = 128, .image = 192}));
  return absl::OkStatus();
}

// nets/residual/regnet.h
void BuildRegNet() { Graph net = nets::RegNetY({.variant = nets::kRegNetY400MF, .batch = 128}); }

// nets/residual/residual_trunk.h
void AddEncoder(Graph& net, const std::string& image) {
  using namespace nets;
  ResNetStages stages = AddResNetStages(net, {.blocks = {3, 4, 23, 3}}, "encoder.", image);
  std::string x = net.Add("head", Convolution{.out_channels = 21}, {stages[4].name});
}

// nets/residual/resnet.h
void BuildResNets() {
  Graph resnet50 = nets::ResNet({.batch = 128});
  Graph resnet18 = nets::ResNet({.blocks = {2, 2, 2, 2}, .bottleneck = false, .batch = 128});
  Graph wide = nets::ResNet({.batch = 64, .width_per_group = 128});
  Graph resnext50 = nets::ResNet({.batch = 64, .groups = 32, .width_per_group = 4});
  Graph deep = nets::ResNet(nets::ResNetOfDepth(1001));
  Graph resnet20 = nets::CifarResNet({.n = 3, .batch = 128});
}

// nets/segmentation/nnunet.h
void BuildNnUNets() {
  Graph net = nets::NnUNet(nets::NnUNet3d(128));
  Graph large = nets::NnUNet(nets::ResEncUNet3d(192));
}

// nets/segmentation/nnunet_plans.h
absl::Status BuildFromPlansFile() {
  ASSIGN_OR_RETURN(nets::NnUNetOptions options,
                   nets::ReadNnUNetPlans("nnUNetPlans.json", {.configuration = "2d"}));
  Graph net = nets::NnUNet(options);
  return absl::OkStatus();
}

// nets/segmentation/atrous_pyramid.h
void AddPyramid(Graph& net, std::string x) {
  using namespace nets;
  x = AddAtrousPyramid(net, "classifier.0.", {.size = 60}, 2048, x);
}

// nets/segmentation/dilated_resnet.h
void BuildDilatedResNets() {
  Graph deeplab = nets::DeepLabV3({.batch = 8, .aux_logits = true});
  Graph fcn = nets::FcnResNet({.backbone = nets::kResNet101, .batch = 8});
}

// nets/segmentation/resnet_decoders.h
void BuildResNetDecoders() {
  Graph unet = nets::ResNetUNet({.encoder = nets::kResNet34, .image = 256, .batch = 16});
  Graph fpn = nets::ResNetFpn({.encoder = nets::kResNet50, .classes = 2, .batch = 8});
  Graph deeplab = nets::DeepLabV3Plus({.encoder = nets::kResNet101, .batch = 8});
}

// nets/segmentation/sequential_unit.h
void AddUnits(Graph& net, std::string x) {
  using namespace nets;
  x = AddSequentialUnit(net, "decoder.block1.", 0, {.out_channels = 48, .bias = false}, x);
  x = AddSeparableUnit(net, "decoder.block2.", 0, 304, {.out_channels = 256, .kernel = 3}, x);
}

// nets/segmentation/unet3d.h
void BuildUNet3d() { Graph net = nets::UNet3d({.image = 64, .batch = 4}); }

// docs/own-network.md
void AddDeepSupervision(neap::Graph& net, const std::string& x, const std::string& half) {
  net.PixelLoss(x, neap::NnUNetLoss(), {64, 128, 128});
  neap::DiceLoss coarse = neap::NnUNetLoss();
  coarse.weight = 0.5F;
  net.AuxiliaryLoss(half, coarse);  // of predictions for 32x64x64 positions
}

// nets/segmentation/unet.h
void BuildUNet() { Graph net = nets::UNet({.image = 256, .batch = 8, .batch_norm = true}); }

// nets/vgg.h
void BuildVgg() { Graph net = nets::Vgg({.convolutions = nets::kVgg19, .batch = 64}); }

// nets/with_loss.h
absl::Status ChangeLosses() {
  ASSIGN_OR_RETURN(Graph net, nets::Build("resnet50", {.batch = 128}));
  ASSIGN_OR_RETURN(Graph smoothed, nets::WithLabelSmoothing(net, 0.1F));
  ASSIGN_OR_RETURN(Graph multilabel, nets::WithTargetLoss(net, BinaryCrossEntropy{}));
  ASSIGN_OR_RETURN(Graph segmenting, nets::WithLabelLoss(nets::UNet({}), NnUNetLoss()));
  return absl::OkStatus();
}

}  // namespace neap::examples

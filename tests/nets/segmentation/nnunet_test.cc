#include "neap/nets/segmentation/nnunet.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "neap/layers/loss/dice_loss.h"
#include "neap/memory/create_session.h"
#include "neap/nets/segmentation/unet3d.h"
#include "tests/nets/resolved.h"
#include "tests/small_training.h"

namespace neap::nets {
namespace {

// The elements of what convolutions write, as compute_conv_feature_map_size() of the package counts
// them: a skip connection with any layer counts once, as what its block gives.
int64_t FeatureMapSize(const Graph& graph) {
  const Resolved net(graph);
  int64_t elements = 0;
  for (const ResolvedLayer& layer : net.graph().layers) {
    const std::string_view type = layer.layer.type();
    const size_t skip = layer.name.find("skip.0");
    if (skip != std::string::npos && (type == "average_pool" || type == "convolution")) {
      elements += net.layer(layer.name.substr(0, skip) + "add").spec.output.elements();
    } else if ((type == "convolution" && !layer.name.ends_with("skip.1.conv")) ||
               type == "transposed_convolution") {
      elements += layer.spec.output.elements();
    }
  }
  return elements;
}

// By hand from the shapes of dynamic_network_architectures: a 3x3x3 convolution from i to o maps
// has 27 i o + o numbers and its norm 2 o, a transposed one from i to o maps 8 i o + o, a head of k
// classes k f + k.
TEST_CASE("nnU-Net has as many parameters as the package's") {
  CHECK(Parameters(NnUNet(NnUNet3d(128))) == 31'195'594);
  NnUNetOptions brats = NnUNet3d(128);  // of four channels, as published for BraTS: 31.2 million
  brats.channels = 4;
  brats.classes = 4;
  CHECK(Parameters(NnUNet(brats)) == 31'199'796);
  CHECK(Parameters(NnUNet(NnUNet2d(512))) == 46'324'558);
  CHECK(Parameters(NnUNet(ResEncUNet3d(128))) == 102'349'770);  // published: 102 million
}

// nnunetv2/experiment_planning/experiment_planners/residual_unets/
// residual_encoder_unet_planners.py prints both numbers.
TEST_CASE("residual encoders have the feature maps that nnU-Net's planner knows") {
  NnUNetOptions volumes = ResEncUNet3d(128);
  volumes.graph.batch = 1;
  volumes.classes = 3;
  CHECK(FeatureMapSize(NnUNet(volumes)) == 558'319'104);
  NnUNetOptions images = {.graph = {.batch = 1}, .patch = {512, 512}, .residual = true};
  for (const auto& [features, blocks] : {std::pair<int64_t, int64_t>{32, 1},
                                         {64, 3},
                                         {128, 4},
                                         {256, 6},
                                         {512, 6},
                                         {512, 6},
                                         {512, 6}}) {
    images.stages.push_back({.features = features,
                             .stride = images.stages.empty() ? 1 : 2,
                             .blocks = blocks,
                             .decoder_blocks = 1});
  }
  images.classes = 3;
  CHECK(FeatureMapSize(NnUNet(images)) == 129'793'792);
}

TEST_CASE("the parameters of nnU-Net have the package's names") {
  const auto plain = Resolved(NnUNet(NnUNet3d(128))).keys();
  CHECK(plain.size() == 22 * 4 + 5 * 2 + 5 * 2);
  for (const char* key :
       {"encoder.stages.0.0.convs.0.conv.weight", "encoder.stages.5.0.convs.1.norm.bias",
        "decoder.transpconvs.4.bias", "decoder.stages.4.convs.1.conv.bias",
        "decoder.seg_layers.0.weight", "decoder.seg_layers.4.bias"}) {
    CAPTURE(key);
    CHECK(plain.count(key) == 1);
  }
  const auto residual = Resolved(NnUNet(ResEncUNet3d(128))).keys();
  for (const char* key :
       {"encoder.stem.convs.0.conv.weight", "encoder.stages.0.blocks.0.conv2.norm.weight",
        "encoder.stages.1.blocks.0.skip.1.conv.weight",
        "encoder.stages.1.blocks.0.skip.1.norm.bias", "encoder.stages.3.blocks.5.conv1.conv.bias",
        "decoder.stages.0.convs.0.norm.weight"}) {
    CAPTURE(key);
    CHECK(residual.count(key) == 1);
  }
  // No projection without more features, no bias in one, and no skip of a block that changes
  // nothing.
  for (const char* key : {"encoder.stages.0.blocks.0.skip.0.conv.weight",
                          "encoder.stages.1.blocks.0.skip.1.conv.bias",
                          "encoder.stages.5.blocks.0.skip.1.conv.weight",
                          "encoder.stages.1.blocks.1.skip.0.conv.weight"}) {
    CAPTURE(key);
    CHECK(residual.count(key) == 0);
  }
}

TEST_CASE("stages have kernels and strides of their own along each axis") {
  NnUNetOptions options = {.graph = {.batch = 1},
                           .patch = {4, 32, 16},
                           .stages = {{.features = 8, .kernel = {1, 3, 3}},
                                      {.features = 16, .kernel = {1, 3, 3}, .stride = {1, 2, 2}},
                                      {.features = 24, .stride = {2, 4, 2}, .blocks = 1}},
                           .channels = 2,
                           .classes = 5};
  const Resolved net(NnUNet(options));
  CHECK(net.shape("encoder.stages.1.0.convs.1.nonlin") == "1x16x4x16x8");
  CHECK(net.shape("encoder.stages.2.0.convs.0.nonlin") == "1x24x2x4x4");
  CHECK(net.shape("decoder.transpconvs.0") == "1x16x4x16x8");
  CHECK(net.shape("decoder.cat.1") == "1x16x4x32x16");
  CHECK(net.shape("decoder.seg_layers.0") == "1x5x4x16x8");
  CHECK(net.shape("loss") == "1x5x4x32x16");
  CHECK(net.shape("labels") == "1x4x32x16");
  options.patch = {4, 32, 10};  // not divided by 4
  CHECK_FALSE(Resolve(NnUNet(options), Mode::kTraining).ok());
}

TEST_CASE("each head has nnU-Net's loss, with half the weight of the head above") {
  NnUNetOptions options = NnUNet3d(32);  // four resolutions, and three heads
  options.batch_dice = true;
  std::vector<float> weights;
  const Resolved resolved(NnUNet(options));
  for (const ResolvedLayer& layer : resolved.graph().layers) {
    if (!IsLoss(layer.role)) continue;
    const DiceLoss& loss = *layer.layer.As<DiceLoss>();
    CHECK((loss.batch && !loss.background && loss.cross_entropy == 1 && loss.smooth == 1e-5F));
    CHECK((layer.role == LayerRole::kLoss) == (layer.name == "loss"));
    weights.push_back(loss.weight);
  }
  std::sort(weights.begin(), weights.end());
  REQUIRE(weights.size() == 3);
  CHECK(weights[2] == doctest::Approx(2 * weights[1]));
  CHECK(weights[0] == doctest::Approx(1e-6 / 1.5));
  CHECK(weights[0] + weights[1] + weights[2] == doctest::Approx(1));
  options.lowest_head = false;
  const Resolved without_lowest(NnUNet(options));
  CHECK(without_lowest.count("dice_loss") == 2);
  CHECK(without_lowest.layer("loss").spec.loss_weight == doctest::Approx(2.0 / 3));
  options.deep_supervision = false;
  const Resolved alone(NnUNet(options));
  CHECK(alone.count("dice_loss") == 1);
  CHECK(alone.layer("loss").spec.loss_weight == 1);
}

TEST_CASE("Dice is over the batch for images, and of each volume") {
  const auto is_over_batch = [](const Graph& net) {
    return Resolved(net).layer("loss").layer.As<DiceLoss>()->batch;
  };
  CHECK(is_over_batch(NnUNet(NnUNet2d(64))));
  CHECK_FALSE(is_over_batch(NnUNet(NnUNet3d(32))));
  CHECK_FALSE(is_over_batch(NnUNet(ResEncUNet3d(32))));
}

TEST_CASE("MLPerf's 3-D U-Net has the reference's parameters") {
  CHECK(Parameters(UNet3d({})) ==
        31'190'243);  // by hand: no bias but of what enlarges and the head
  const auto keys = Resolved(UNet3d({.image = 32, .batch = 1})).keys();
  CHECK(keys.size() == 22 * 3 + 5 * 2 + 2);
  for (const char* key :
       {"input_block.conv1.0.weight", "downsample.3.conv2.1.bias", "bottleneck.conv1.0.weight",
        "upsample.0.upsample_conv.0.bias", "upsample.4.conv2.1.weight", "output.conv.bias"}) {
    CAPTURE(key);
    CHECK(keys.count(key) == 1);
  }
  CHECK(Resolved(UNet3d({.image = 64, .batch = 2})).shape("bottleneck.conv2.2") == "2x320x2x2x2");
}

// The class of a voxel is whether it is bright.
void CheckLearns(const Graph& net, int64_t voxels, int steps, float least) {
  CAPTURE(net.options().name);
  const auto device = OpenCpu();
  Session session = Opened(net, *device, {}, {.learning_rate = {.base = 0.02F}});
  const int64_t count = net.options().batch * voxels;
  std::vector<float> losses;
  for (int step = 0; step < steps; ++step) {
    std::vector<float> volume;
    std::vector<int32_t> labels;
    for (int64_t i = 0; i < count; ++i) {
      volume.push_back(std::sin(static_cast<float>(i / 5 + 7 * step)));
      labels.push_back(volume.back() > 0.2F ? 1 : 0);
    }
    const absl::StatusOr<StepResult> result =
        session.Step({{.name = "input", .floats = volume}, {.name = "labels", .integers = labels}});
    REQUIRE_MESSAGE(result.ok(), result.status().ToString());
    losses.push_back(result->loss);
  }
  CHECK(losses.back() < losses.front() - least);
}

TEST_CASE("small networks for segmentation learn on the CPU") {
  NnUNetOptions plain = NnUNet3d(16);
  NnUNetOptions residual = ResEncUNet3d(16);
  NnUNetOptions images = NnUNet2d(32);
  images.graph.batch = 2;
  for (NnUNetOptions* options : {&plain, &residual, &images}) {
    for (NnUNetStage& stage : options->stages) {
      stage.features /= 4;
      stage.blocks = 1;
    }
  }
  CheckLearns(NnUNet(plain), 16 * 16 * 16, 12, 0.3F);
  CheckLearns(NnUNet(residual), 16 * 16 * 16, 12, 0.3F);
  CheckLearns(NnUNet(images), 32 * 32, 20, 0.3F);
}

}  // namespace
}  // namespace neap::nets

// The initial values of networks are torchvision's (docs/initial-values.md).
#include "neap/nets/initial_values.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <string>

#include "neap/core/program/passes.h"
#include "neap/core/program/program.h"
#include "neap/core/run/initialize.h"
#include "neap/layers/devices/device_description.h"
#include "neap/nets/registry.h"

namespace neap::nets {
namespace {

Init Normal(double deviation) { return {Init::Kind::kNormal, static_cast<float>(deviation)}; }
Init Uniform(double half_width) { return {Init::Kind::kUniform, static_cast<float>(half_width)}; }
constexpr Init kZero = {};

Program ProgramOf(const std::string& name, const NetOptions& options, const std::string& device) {
  const Graph net = Build(name, options).value();
  return Lower(net, {.mode = Mode::kInference}, DescribedDevice(device).value()).value();
}

struct Row {
  std::string net;
  int64_t image;
  std::map<std::string, Init> begins;
  bool aux_logits = false;
};

void CheckRow(const Row& row) {
  CAPTURE(row.net);
  const NetOptions options = {.batch = 2, .image = row.image, .aux_logits = row.aux_logits};
  const Program program = ProgramOf(row.net, options, "h200");
  size_t found = 0;
  for (const Tensor& tensor : program.tensors) {
    const auto want = row.begins.find(tensor.name);
    if (want == row.begins.end()) continue;
    CAPTURE(tensor.name);
    CHECK(tensor.init.kind == want->second.kind);
    CHECK(tensor.init.scale == doctest::Approx(want->second.scale));
    ++found;
  }
  CHECK(found == row.begins.size());
}

TEST_CASE("weights begin as those of PyTorch's layers, or by the rules of torchvision's networks") {
  CheckRow({"lenet",
            28,
            {{"conv1.weight", Uniform(1 / std::sqrt(25.0))},
             {"conv1.bias", Uniform(1 / std::sqrt(25.0))},
             {"conv2.bias", Uniform(1 / std::sqrt(20 * 25.0))},
             {"fc2.weight", Uniform(1 / std::sqrt(500.0))},
             {"fc2.bias", Uniform(1 / std::sqrt(500.0))}}});
  CheckRow({"alexnet-torchvision",
            224,
            {{"features.0.weight", Uniform(1 / std::sqrt(3 * 121.0))},
             {"classifier.6.bias", Uniform(1 / std::sqrt(4096.0))}}});
  CheckRow({"vgg16",
            32,
            {{"features.0.weight", Normal(std::sqrt(2.0 / (64 * 9)))},
             {"features.0.bias", kZero},
             {"classifier.0.weight", Normal(0.01)},
             {"classifier.0.bias", kZero}}});
  CheckRow({"resnet18",
            64,
            {{"conv1.weight", Normal(std::sqrt(2.0 / (64 * 49)))},
             {"layer2.0.downsample.0.weight", Normal(std::sqrt(2.0 / 128))},
             {"fc.weight", Uniform(1 / std::sqrt(512.0))},
             {"fc.bias", Uniform(1 / std::sqrt(512.0))}}});
  CheckRow(
      {"resnext50_32x4d", 64, {{"layer1.0.conv2.weight", Normal(std::sqrt(2.0 / (128 * 9)))}}});
  CheckRow({"densenet121",
            64,
            {{"features.conv0.weight", Normal(std::sqrt(2.0 / (3 * 49)))},
             {"classifier.weight", Uniform(1 / std::sqrt(1024.0))},
             {"classifier.bias", kZero}}});
  CheckRow({"googlenet",
            64,
            {{"conv1.conv.weight", Normal(0.01)},
             {"fc.weight", Normal(0.01)},
             {"fc.bias", Uniform(1 / std::sqrt(1024.0))}}});
  CheckRow({"inception_v3",
            299,
            {{"Conv2d_1a_3x3.conv.weight", Normal(0.1)},
             {"fc.weight", Normal(0.1)},
             {"AuxLogits.conv1.conv.weight", Normal(0.1)},
             {"AuxLogits.fc.weight", Normal(0.001)}},
            /*aux_logits=*/true});
  CheckRow({"mobilenet_v2",
            64,
            {{"features.1.conv.0.0.weight", Normal(std::sqrt(2.0 / (32 * 9)))},
             {"classifier.1.weight", Normal(0.01)},
             {"classifier.1.bias", kZero}}});
  CheckRow({"mobilenet_v3_small",
            64,
            {{"features.1.block.1.fc1.weight", Normal(std::sqrt(2.0 / 8))},
             {"features.1.block.1.fc1.bias", kZero},
             {"classifier.3.weight", Normal(0.01)}}});
  CheckRow({"efficientnet_b0",
            64,
            {{"features.0.0.weight", Normal(std::sqrt(2.0 / (32 * 9)))},
             {"classifier.1.weight", Uniform(1 / std::sqrt(1000.0))},
             {"classifier.1.bias", kZero}}});
  CheckRow({"regnet_y_400mf",
            64,
            {{"stem.0.weight", Normal(std::sqrt(2.0 / (32 * 9)))},
             {"trunk_output.block1.block1-0.f.se.fc2.bias", Uniform(1 / std::sqrt(8.0))},
             {"fc.weight", Normal(0.01)},
             {"fc.bias", kZero}}});
  CheckRow({"convnext_tiny",
            64,
            {{"features.0.0.weight", Normal(0.02)},
             {"features.1.0.block.0.bias", kZero},
             {"features.1.0.block.3.weight", Normal(0.02)},
             {"classifier.2.weight", Normal(0.02)},
             {"classifier.2.bias", kZero}}});
  CheckRow({"vit_b_16",
            32,
            {{"conv_proj.weight", Normal(std::sqrt(1.0 / 768))},
             {"class_token", Normal(0)},
             {"encoder.pos_embedding", Normal(0.02)},
             {"encoder.layers.encoder_layer_0.self_attention.in_proj_weight",
              Uniform(std::sqrt(6.0 / (4 * 768)))},
             {"encoder.layers.encoder_layer_0.self_attention.in_proj_bias", kZero},
             {"encoder.layers.encoder_layer_0.self_attention.out_proj.weight",
              Uniform(1 / std::sqrt(768.0))},
             {"encoder.layers.encoder_layer_0.self_attention.out_proj.bias", kZero},
             {"encoder.layers.encoder_layer_3.mlp.0.weight", Uniform(std::sqrt(6.0 / (5 * 768)))},
             {"encoder.layers.encoder_layer_3.mlp.3.weight", Uniform(std::sqrt(6.0 / (5 * 768)))},
             {"heads.head.weight", Normal(0)},
             {"heads.head.bias", kZero}}});
  CheckRow({"swin_t",
            32,
            {{"features.0.0.weight", Uniform(1 / std::sqrt(48.0))},
             {"features.0.0.bias", Uniform(1 / std::sqrt(48.0))},
             {"features.1.1.attn.relative_position_bias_table", Normal(0.02)},
             {"features.1.1.attn.qkv.weight", Normal(0.02)},
             {"features.1.1.attn.qkv.bias", kZero},
             {"features.2.reduction.weight", Normal(0.02)},
             {"features.5.5.mlp.3.weight", Normal(0.02)},
             {"features.7.1.mlp.0.bias", kZero},
             {"head.weight", Normal(0.02)},
             {"head.bias", kZero}}});
  CheckRow({"gpt2",
            32,
            {{"wte.weight", Normal(0.02)},
             {"wpe.weight", Normal(0.02)},
             {"h.0.attn.c_attn.weight", Normal(0.02)},
             {"h.0.attn.c_attn.bias", kZero},
             {"h.0.attn.c_proj.weight", Normal(0.02 / std::sqrt(24.0))},
             {"h.11.mlp.c_fc.weight", Normal(0.02)},
             {"h.11.mlp.c_proj.weight", Normal(0.02 / std::sqrt(24.0))}}});
  CheckRow({"unet-resnet18",
            64,
            {{"encoder.conv1.weight", Normal(std::sqrt(2.0 / (64 * 49)))},
             {"decoder.blocks.0.conv1.0.weight", Uniform(std::sqrt(6.0 / (768 * 9)))},
             {"segmentation_head.0.weight", Uniform(std::sqrt(6.0 / ((16 + 21) * 9)))},
             {"segmentation_head.0.bias", kZero}}});
  CheckRow({"fpn-resnet50",
            64,
            {{"decoder.p5.weight", Uniform(std::sqrt(6.0 / 2048))},
             {"decoder.p4.skip_conv.bias", kZero},
             {"decoder.seg_blocks.0.block.1.block.0.weight", Uniform(std::sqrt(6.0 / (128 * 9)))},
             {"segmentation_head.0.weight", Uniform(std::sqrt(6.0 / (128 + 21)))}}});
  CheckRow({"deeplabv3plus-resnet18",
            64,
            {{"encoder.layer4.0.conv1.weight", Normal(std::sqrt(2.0 / (512 * 9)))},
             {"decoder.aspp.0.convs.1.0.0.weight", Uniform(1 / std::sqrt(9.0))},
             {"segmentation_head.0.bias", Uniform(1 / std::sqrt(256.0))}}});
  CheckRow({"deeplabv3_resnet50",
            64,
            {{"backbone.layer4.2.conv2.weight", Normal(std::sqrt(2.0 / (512 * 9)))},
             {"classifier.0.convs.1.0.weight", Uniform(1 / std::sqrt(2048 * 9.0))},
             {"aux_classifier.4.bias", Uniform(1 / std::sqrt(256.0))}},
            /*aux_logits=*/true});
  CheckRow({"unet",
            32,
            {{"inc.double_conv.0.weight", Uniform(1 / std::sqrt(9.0))},
             {"up1.up.weight", Uniform(1 / std::sqrt(512 * 4.0))},
             {"up1.up.bias", Uniform(1 / std::sqrt(512 * 4.0))}}});
}

// Fused layers have other definitions, which know nothing of the rules.
TEST_CASE("parameters begin in the same way on every device, fused or not, and in sub-batches") {
  for (const char* const name : {"lenet", "alexnet", "vgg16", "resnet50", "mobilenet_v3_small"}) {
    CAPTURE(name);
    NetOptions options = {.batch = 2, .layout = Layout::kChannelsLast};
    if (std::string(name) != "alexnet" && std::string(name) != "lenet") options.image = 64;
    Graph apart(GraphOptions{});
    {
      const Graph net = Build(name, options).value();
      GraphOptions unfused = net.options();
      unfused.fusion = false;
      apart = Graph(unfused);
      for (const GraphLayer& layer : net.layers()) apart.Add(layer);
    }
    std::map<std::string, Init> begins;
    const DeviceDescription h200 = DescribedDevice("h200").value();
    const Program unfused = Lower(apart, {.mode = Mode::kInference}, h200).value();
    for (const Tensor& tensor : unfused.tensors)
      if (tensor.role == Role::kParam) begins[tensor.name] = tensor.init;
    for (const int64_t parts : {1, 2}) {
      const Program fused = Lower(Build(name, options).value(),
                                  {.mode = Mode::kInference, .sub_batches = parts}, h200)
                                .value();
      for (const Tensor& tensor : fused.tensors) {
        if (tensor.role != Role::kParam) continue;
        CAPTURE(tensor.name);
        CHECK(begins.at(tensor.name) == tensor.init);
      }
    }
  }
}

TEST_CASE("initial values have the spread and the bounds of their rule") {
  const Program program = ProgramOf("lenet", {.batch = 1}, "h200");
  for (const Tensor& tensor : program.tensors) {
    if (tensor.name != "fc1.weight") continue;
    const double bound = 1 / std::sqrt(800.0);
    double squares = 0;
    const std::vector<float> values = InitialValues(tensor, /*seed=*/1);
    for (const float value : values) {
      CHECK_UNARY(std::abs(value) <= bound);
      squares += static_cast<double>(value) * value;
    }
    CHECK(std::sqrt(squares / static_cast<double>(values.size())) ==
          doctest::Approx(bound / std::sqrt(3.0)).epsilon(0.01));
  }
}

}  // namespace
}  // namespace neap::nets

#include "neap/nets/residual/resnet.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <set>

#include "neap/layers/convolution.h"
#include "neap/nets/registry.h"
#include "tests/nets/resolved.h"

namespace neap::nets {
namespace {

TEST_CASE("ResNet-18 to -152 have torchvision's numbers of parameters") {
  CHECK(Parameters(ResNet({.blocks = {2, 2, 2, 2}, .bottleneck = false})) == 11'689'512);
  CHECK(Parameters(ResNet({.blocks = {3, 4, 6, 3}, .bottleneck = false})) == 21'797'672);
  CHECK(Parameters(ResNet({.blocks = {3, 4, 6, 3}})) == 25'557'032);
  CHECK(Parameters(ResNet({.blocks = {3, 4, 23, 3}})) == 44'549'160);
  CHECK(Parameters(ResNet({.blocks = {3, 8, 36, 3}})) == 60'192'808);
}

TEST_CASE("ResNets are named after their depth") {
  CHECK(ResNet({.blocks = {2, 2, 2, 2}, .bottleneck = false}).options().name == "resnet18");
  CHECK(ResNet({.blocks = {3, 8, 36, 3}}).options().name == "resnet152");
  CHECK(CifarResNet({.n = 18}).options().name == "resnet110");
  CHECK(ResNet({.width_per_group = 128}).options().name == "wide_resnet50_2");
  CHECK(ResNet({.blocks = {3, 4, 23, 3}, .groups = 32, .width_per_group = 8}).options().name ==
        "resnext101_32x8d");
}

// The first block of a stage leaves its projection.
TEST_CASE("dropped blocks leave their shortcuts, and other parameters do not change") {
  const Graph all = CifarResNet({.n = 2});
  const Graph some = CifarResNet({.n = 2, .dropped = {1, 2}});
  const auto has = [](const Graph& net, const std::string& layer) {
    return std::any_of(net.layers().begin(), net.layers().end(),
                       [&](const GraphLayer& l) { return l.name == layer; });
  };
  for (const char* layer : {"layer1.1.conv1", "layer1.1.add", "layer2.0.bn2"}) {
    CHECK(has(all, layer));
    CHECK(!has(some, layer));
  }
  CHECK(has(some, "layer2.0.downsample.0"));
  // Two convolutions and their batch norms each.
  CHECK(Parameters(all) - Parameters(some) ==
        (2 * 16 * 16 * 9 + 4 * 16) + (16 * 32 * 9 + 32 * 32 * 9 + 4 * 32));
  CHECK(Parameters(CifarResNet({.n = 1, .dropped = {0, 1, 2}})) > 0);
}

// Every block has conv1 bn1 conv2 bn2 conv3 bn3; every first block of a stage downsample.0 and .1.
std::set<std::string> TorchvisionKeysOfResNet50() {
  std::set<std::string> keys = {"fc.weight", "fc.bias", "conv1.weight"};
  const auto add_batch_norm = [&](const std::string& name) {
    for (const char* tensor : {".weight", ".bias", ".running_mean", ".running_var"}) {
      keys.insert(name + tensor);
    }
  };
  add_batch_norm("bn1");
  const int blocks[] = {3, 4, 6, 3};
  for (int stage = 0; stage < 4; ++stage) {
    for (int i = 0; i < blocks[stage]; ++i) {
      const std::string block = "layer" + std::to_string(stage + 1) + "." + std::to_string(i) + ".";
      for (const char* unit : {"1", "2", "3"}) {
        keys.insert(block + "conv" + unit + ".weight");
        add_batch_norm(block + "bn" + unit);
      }
      if (i > 0) continue;
      keys.insert(block + "downsample.0.weight");
      add_batch_norm(block + "downsample.1");
    }
  }
  return keys;
}

TEST_CASE("ResNet-50's parameters and statistics have the keys of torchvision's state_dict") {
  const std::set<std::string> keys = Resolved(ResNet({})).keys();
  CHECK(keys.size() ==
        320 - 53);  // num_batches_tracked, which neap does not have, once per batch norm
  CHECK(keys == TorchvisionKeysOfResNet50());
}

TEST_CASE(
    "a basic block of unchanged shape has no projection, the first of a later stage has one") {
  const auto keys = Resolved(ResNet({.blocks = {2, 2, 2, 2}, .bottleneck = false})).keys();
  CHECK(keys.size() == 122 - 20);
  CHECK(keys.count("layer1.0.downsample.0.weight") == 0);
  CHECK(keys.count("layer2.0.downsample.0.weight") == 1);
  CHECK(keys.count("layer2.1.downsample.0.weight") == 0);
}

TEST_CASE("layers without parameters have torchvision's names or names that follow its scheme") {
  const Resolved net(ResNet({}));
  for (const char* name : {"relu", "maxpool", "layer1.0.relu1", "layer1.0.relu2", "layer1.0.add",
                           "layer1.0.relu3", "avgpool"}) {
    CHECK(net.layer(name).spec.params.empty());
  }
  const Resolved basic(ResNet({.blocks = {2, 2, 2, 2}, .bottleneck = false}));
  CHECK(basic.layer("layer1.0.relu2").layer.type() == "relu");
}

TEST_CASE("ResNet-50's shapes are torchvision's") {
  const Resolved net(ResNet({.batch = 8}));
  CHECK(net.shape("conv1") == "8x64x112x112");
  CHECK(net.shape("maxpool") == "8x64x56x56");
  CHECK(net.shape("layer1.2.relu3") == "8x256x56x56");
  CHECK(net.shape("layer2.0.downsample.1") == "8x512x28x28");
  CHECK(net.shape("layer2.3.relu3") == "8x512x28x28");
  CHECK(net.shape("layer3.5.relu3") == "8x1024x14x14");
  CHECK(net.shape("layer4.2.relu3") == "8x2048x7x7");
  CHECK(net.shape("avgpool") == "8x2048x1x1");
  CHECK(net.shape("loss") == "8x1000x1x1");
}

TEST_CASE("a bottleneck's stride is at its 3x3 convolution") {
  const Resolved net(ResNet({.batch = 8}));
  CHECK(net.shape("layer2.0.conv1") == "8x128x56x56");
  CHECK(net.shape("layer2.0.conv2") == "8x128x28x28");
}

TEST_CASE("wide ResNets and ResNeXts have torchvision's keys and numbers of parameters") {
  const Resolved wide(ResNet({.width_per_group = 128}));
  CHECK(wide.keys() == TorchvisionKeysOfResNet50());
  CHECK(ParameterCount(wide.graph()) == 68'883'240);
  CHECK(wide.shape("layer1.0.conv2") == "1x128x56x56");
  CHECK(wide.shape("layer1.0.conv3") == "1x256x56x56");
  const Resolved grouped(ResNet({.groups = 32, .width_per_group = 4}));
  CHECK(grouped.keys() == TorchvisionKeysOfResNet50());
  CHECK(ParameterCount(grouped.graph()) == 25'028'904);
  CHECK(grouped.layer("layer4.2.conv2").spec.params[0].tensor.shape == Shape{1024, 32, 3, 3});
}

TEST_CASE("no convolution before a batch norm has a bias") {
  const Resolved net(ResNet({}));
  for (const ResolvedLayer& layer : net.graph().layers) {
    if (const auto* convolution = layer.layer.As<Convolution>()) CHECK_FALSE(convolution->bias);
  }
  CHECK(net.count("convolution") == 53);
  CHECK(net.count("batch_norm") == 53);
  CHECK(net.count("add") == 16);
}

TEST_CASE("a block's main path runs before its shortcut") {
  const std::vector<std::string> names = Resolved(ResNet({})).names();
  const auto first = std::find(names.begin(), names.end(), "layer1.0.conv1");
  const std::vector<std::string> block(first, first + 12);
  CHECK(block == std::vector<std::string>{"layer1.0.conv1", "layer1.0.bn1", "layer1.0.relu1",
                                          "layer1.0.conv2", "layer1.0.bn2", "layer1.0.relu2",
                                          "layer1.0.conv3", "layer1.0.bn3", "layer1.0.downsample.0",
                                          "layer1.0.downsample.1", "layer1.0.add",
                                          "layer1.0.relu3"});
}

TEST_CASE("ResNets for CIFAR have 6n + 2 layers and the projections' parameters") {
  // Option A's published 269,722 for ResNet-20, plus two projections: 16 x 32 + 2 x 32 and
  // 32 x 64 + 2 x 64.
  CHECK(Parameters(CifarResNet({.n = 3})) == 269'722 + 576 + 2'176);
  for (const int n : {1, 3, 5, 18}) {
    const Resolved net(CifarResNet({.n = n}));
    CHECK(net.count("convolution") + 1 == 6 * n + 2 + 2);  // fc; two projections
  }
}

TEST_CASE("a ResNet for CIFAR takes 8x8 digits as well as 32x32 images") {
  const Resolved cifar(CifarResNet({.batch = 4}));
  CHECK(cifar.shape("conv1") == "4x16x32x32");
  CHECK(cifar.shape("layer2.2.relu2") == "4x32x16x16");
  CHECK(cifar.shape("layer3.2.relu2") == "4x64x8x8");
  CHECK(cifar.shape("fc") == "4x10x1x1");
  const Resolved digits(CifarResNet({.n = 1, .image = 8, .batch = 4, .channels = 1, .width = 8}));
  CHECK(digits.shape("layer1.0.add") == "4x8x8x8");
  CHECK(digits.shape("layer3.0.add") == "4x32x2x2");
}

TEST_CASE("dtype and layout reach every activation") {
  const Resolved net(CifarResNet({.n = 1, .dtype = DType::kTf32, .layout = Layout::kChannelsLast}));
  for (const ResolvedLayer& layer : net.graph().layers) {
    if (layer.name == "labels") continue;
    CHECK(layer.spec.output.dtype == DType::kTf32);
    CHECK(layer.spec.output.layout == Layout::kChannelsLast);
  }
}

TEST_CASE("a depth gives SuperNeurons' blocks: 6, 32, the remainder, 6") {
  CHECK(ResNetOfDepth(137).blocks == std::array<int64_t, 4>{6, 32, 1, 6});
  CHECK(ResNetOfDepth(1001).blocks == std::array<int64_t, 4>{6, 32, 289, 6});
  CHECK(ResNet(ResNetOfDepth(1001)).options().name == "resnet1001");
}

TEST_CASE("a ResNet more than 10,000 layers deep builds and resolves") {
  const Graph net = ResNet({.blocks = {6, 32, 3300, 6}, .image = 32});
  CHECK(net.options().name == "resnet10034");
  const Resolved deep(net);
  CHECK(deep.graph().layers.size() > 33'000);
  CHECK(deep.graph().layers.back().name == "loss");
}

}  // namespace
}  // namespace neap::nets

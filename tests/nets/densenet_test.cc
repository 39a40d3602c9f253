#include "neap/nets/densenet.h"

#include <doctest/doctest.h>

#include <array>
#include <cstdint>

#include "neap/nets/registry.h"
#include "tests/nets/resolved.h"

namespace neap::nets {
namespace {

TEST_CASE("DenseNets have torchvision's numbers of parameters") {
  CHECK(Parameters(DenseNet({})) == 7'978'856);
  CHECK(Parameters(DenseNet({.blocks = {6, 12, 32, 32}})) == 14'149'480);
  CHECK(Parameters(DenseNet({.blocks = {6, 12, 48, 32}})) == 20'013'928);
  CHECK(Parameters(DenseNet({.blocks = {6, 12, 64, 48}})) == 33'337'704);
  CHECK(Parameters(DenseNet({.blocks = {6, 12, 36, 24}, .growth_rate = 48, .stem = 96})) ==
        28'681'000);
}

TEST_CASE("DenseNets are named after their depth") {
  CHECK(DenseNet({}).options().name == "densenet121");
  CHECK(DenseNet({.blocks = {6, 12, 64, 48}}).options().name == "densenet264");
  CHECK(CifarDenseNet({.depth = 40}).options().name == "densenet40");
}

TEST_CASE("a DenseNet of any depth has the blocks of the paper at its depths, and none shrinks") {
  using Blocks = std::array<int64_t, 4>;
  CHECK(DenseNetBlocks(121) == Blocks{6, 12, 24, 16});
  CHECK(DenseNetBlocks(169) == Blocks{6, 12, 32, 32});
  CHECK(DenseNetBlocks(201) == Blocks{6, 12, 48, 32});
  CHECK(DenseNetBlocks(265) == kDenseNet264);
  CHECK(DenseNetBlocks(45) == Blocks{6, 12, 1, 1});
  CHECK(DenseNetBlocks(489) == Blocks{6, 12, 128, 96});
  Blocks before = DenseNetBlocks(45);
  for (int64_t depth = 47; depth <= 2001; depth += 2) {
    CAPTURE(depth);
    const Blocks blocks = DenseNetBlocks(depth);
    CHECK(5 + 2 * (blocks[0] + blocks[1] + blocks[2] + blocks[3]) == depth);
    CHECK(blocks[2] >= before[2]);
    CHECK(blocks[3] >= before[3]);
    before = blocks;
  }
}

TEST_CASE("DenseNet-121's parameters and statistics have the keys of torchvision's state_dict") {
  const Resolved net(DenseNet({}));
  const auto keys = net.keys();
  CHECK(keys.size() == 727 - 121);  // num_batches_tracked, once per batch norm
  for (const char* key :
       {"features.conv0.weight", "features.norm0.bias",
        "features.denseblock1.denselayer1.norm1.weight",
        "features.denseblock1.denselayer6.conv2.weight",
        "features.denseblock4.denselayer16.norm2.running_mean", "features.transition1.norm.weight",
        "features.transition3.conv.weight", "features.norm5.running_var", "classifier.bias"}) {
    CAPTURE(key);
    CHECK(keys.count(key) == 1);
  }
}

TEST_CASE("a dense layer reads the block's input and every earlier layer, flat") {
  const Resolved net(DenseNet({.batch = 2}));
  CHECK(net.layer("features.denseblock1.denselayer2.cat").inputs.size() == 2);
  CHECK(net.layer("features.denseblock3.denselayer24.cat").inputs.size() == 24);
  CHECK(net.layer("features.denseblock3.cat").inputs.size() == 25);
  CHECK(net.shape("features.denseblock1.denselayer6.cat") == "2x224x56x56");
  CHECK(net.count("concat") == 58);  // a block's first layer has nothing to concatenate
  for (const ResolvedLayer& layer : net.graph().layers) {
    for (const LayerOutput input : layer.inputs) {
      if (layer.layer.type() != "concat") continue;
      CHECK(net.graph().Producer(input).layer.type() != "concat");
    }
  }
}

TEST_CASE("DenseNet-121's maps grow within blocks and are halved between them") {
  const Resolved net(DenseNet({.batch = 2}));
  CHECK(net.shape("features.pool0") == "2x64x56x56");
  CHECK(net.shape("features.denseblock1.cat") == "2x256x56x56");
  CHECK(net.shape("features.transition1.pool") == "2x128x28x28");
  CHECK(net.shape("features.denseblock4.cat") == "2x1024x7x7");
  CHECK(net.shape("classifier") == "2x1000x1x1");
}

TEST_CASE("DenseNet takes any growth rate, blocks and compression") {
  const Resolved net(DenseNet(
      {.blocks = {1, 2, 3, 4}, .growth_rate = 5, .stem = 7, .compression = 0.3, .image = 64}));
  CHECK(net.shape("features.denseblock1.cat") == "1x12x16x16");
  CHECK(net.shape("features.transition1.pool") == "1x3x8x8");
  CHECK(net.shape("features.denseblock2.cat") == "1x13x8x8");
}

TEST_CASE("DenseNets for CIFAR have the numbers of parameters of the authors' code") {
  CHECK(Parameters(CifarDenseNet({})) == 1'019'722);
  CHECK(Parameters(CifarDenseNet({.depth = 100, .bottleneck = true, .compression = 0.5})) ==
        769'162);
}

TEST_CASE("a DenseNet for CIFAR has three blocks of (depth - 4) / 3 layers, or half as many") {
  const Resolved basic(CifarDenseNet({.depth = 13}));
  CHECK(basic.shape("features.denseblock3.cat") == "1x124x8x8");
  CHECK(basic.layer("features.denseblock3.denselayer3.conv1").layer.type() == "convolution");
  const Resolved bottleneck(CifarDenseNet({.depth = 16, .growth_rate = 10, .bottleneck = true}));
  CHECK(bottleneck.shape("features.conv0") == "1x20x32x32");
  CHECK(bottleneck.shape("features.denseblock1.denselayer2.conv1") == "1x40x32x32");
  CHECK(bottleneck.shape("features.denseblock3.cat") == "1x80x8x8");
}

}  // namespace
}  // namespace neap::nets

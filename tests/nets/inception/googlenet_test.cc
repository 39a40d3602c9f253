#include "neap/nets/inception/googlenet.h"

#include <doctest/doctest.h>

#include <string>

#include "neap/layers/batch_norm.h"
#include "neap/layers/dropout.h"
#include "neap/layers/pooling.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/nets/registry.h"
#include "tests/nets/resolved.h"

namespace neap::nets {
namespace {

TEST_CASE("GoogLeNet has torchvision's numbers of parameters") {
  CHECK(Parameters(GoogLeNet({})) == 6'624'904);
  CHECK(Parameters(GoogLeNet({.aux_logits = true})) == 13'004'888);
}

TEST_CASE("GoogLeNet's modules have torchvision's shapes") {
  const Resolved net(GoogLeNet({.batch = 2, .aux_logits = true}));
  CHECK(net.count("convolution") == 59);
  CHECK(net.shape("conv1.conv") == "2x64x112x112");
  CHECK(net.shape("maxpool1") == "2x64x56x56");
  CHECK(net.shape("maxpool2") == "2x192x28x28");
  CHECK(net.shape("inception3a.cat") == "2x256x28x28");
  CHECK(net.shape("inception3b.cat") == "2x480x28x28");
  CHECK(net.shape("maxpool3") == "2x480x14x14");
  CHECK(net.shape("inception4a.cat") == "2x512x14x14");
  CHECK(net.shape("inception4d.cat") == "2x528x14x14");
  CHECK(net.shape("maxpool4") == "2x832x7x7");
  CHECK(net.shape("inception5b.cat") == "2x1024x7x7");
  CHECK(net.shape("fc") == "2x1000x1x1");
  CHECK(net.shape("aux1.avgpool") == "2x512x4x4");
  CHECK(net.shape("aux2.conv.conv") == "2x128x4x4");
  CHECK(net.shape("aux2.fc1") == "2x1024x1x1");
}

TEST_CASE("GoogLeNet's parameters and statistics have the keys of torchvision's state_dict") {
  const auto keys = Resolved(GoogLeNet({.aux_logits = true})).keys();
  CHECK(keys.size() == 59 * 5 + 2 + 2 * 4);
  for (const char* module :
       {"conv1", "conv2", "conv3", "inception3a.branch1", "inception3a.branch2.0",
        "inception4c.branch2.1", "inception4e.branch3.0", "inception5a.branch3.1",
        "inception5b.branch4.1", "aux1.conv", "aux2.conv"}) {
    CAPTURE(module);
    CHECK(keys.count(std::string(module) + ".conv.weight") == 1);
    CHECK(keys.count(std::string(module) + ".conv.bias") == 0);
    CHECK(keys.count(std::string(module) + ".bn.running_var") == 1);
  }
  for (const char* key : {"fc.weight", "aux1.fc1.weight", "aux1.fc2.bias", "aux2.fc1.bias"})
    CHECK(keys.count(key) == 1);
}

TEST_CASE("GoogLeNet's auxiliary classifiers are for training only, with a weight of 0.3") {
  const Resolved net(GoogLeNet({.aux_logits = true}));
  for (const ResolvedLayer& layer : net.graph().layers) {
    CAPTURE(layer.name);
    CHECK(layer.training_only == (layer.name.find("aux") == 0));
  }
  for (const std::string aux : {"aux1", "aux2"}) {
    const auto* const loss = net.layer(aux + ".fc2.loss").layer.As<SoftmaxCrossEntropy>();
    REQUIRE(loss != nullptr);
    CHECK(loss->weight == 0.3F);
    CHECK(net.layer(aux + ".dropout").layer.As<Dropout>()->probability == 0.7F);
    const auto* const pool = net.layer(aux + ".avgpool").layer.As<AveragePool>();
    CHECK(pool->kernel == Extents(5));
    CHECK(pool->stride == Extents(3));
  }
  CHECK(net.layer("conv1.bn").layer.As<BatchNorm>()->epsilon == 1e-3F);
  CHECK(net.layer("dropout").layer.As<Dropout>()->probability == 0.2F);
}

TEST_CASE("GoogLeNet takes images of size 15 and larger, with auxiliary classifiers of 63") {
  const auto takes = [](int64_t image, bool aux_logits) {
    return Resolve(GoogLeNet({.image = image, .aux_logits = aux_logits}), Mode::kTraining).ok();
  };
  CHECK(takes(15, false));
  CHECK_FALSE(takes(14, false));
  CHECK_FALSE(takes(62, true));
  for (const int64_t image : {63, 96, 128, 227, 299}) {
    CAPTURE(image);
    const Resolved net(GoogLeNet({.image = image, .aux_logits = true}));
    CHECK(net.shape("aux1.avgpool") == "1x512x4x4");
  }
}

}  // namespace
}  // namespace neap::nets

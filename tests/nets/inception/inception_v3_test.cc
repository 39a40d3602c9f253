#include "neap/nets/inception/inception_v3.h"

#include <doctest/doctest.h>

#include <string>

#include "neap/layers/batch_norm.h"
#include "neap/layers/pooling.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/nets/registry.h"
#include "tests/nets/resolved.h"

namespace neap::nets {
namespace {

TEST_CASE("Inception v3 has torchvision's numbers of parameters") {
  CHECK(Parameters(InceptionV3({})) == 23'834'568);
  CHECK(Parameters(InceptionV3({.aux_logits = true})) == 27'161'264);
}

TEST_CASE("Inception v3's auxiliary classifier is torchvision's, for training only") {
  const Resolved net(InceptionV3({.batch = 2, .aux_logits = true}));
  CHECK(net.shape("AuxLogits.pool") == "2x768x5x5");
  CHECK(net.shape("AuxLogits.conv0.conv") == "2x128x5x5");
  CHECK(net.shape("AuxLogits.conv1.conv") == "2x768x1x1");
  CHECK(net.shape("AuxLogits.fc") == "2x1000x1x1");
  const auto keys = net.keys();
  CHECK(keys.size() == 96 * 5 + 4);
  for (const char* key : {"AuxLogits.conv0.conv.weight", "AuxLogits.conv1.bn.running_mean",
                          "AuxLogits.fc.weight", "AuxLogits.fc.bias"})
    CHECK(keys.count(key) == 1);
  CHECK(net.layer("AuxLogits.fc.loss").layer == Layer(SoftmaxCrossEntropy{.weight = 0.4F}));
  for (const ResolvedLayer& layer : net.graph().layers)
    CHECK(layer.training_only == (layer.name.find("AuxLogits") == 0));
}

TEST_CASE("Inception v3's modules have torchvision's shapes") {
  const Resolved net(InceptionV3({.batch = 2}));
  CHECK(net.count("convolution") == 94);
  CHECK(net.shape("Conv2d_1a_3x3.conv") == "2x32x149x149");
  CHECK(net.shape("Conv2d_2b_3x3.conv") == "2x64x147x147");
  CHECK(net.shape("maxpool1") == "2x64x73x73");
  CHECK(net.shape("maxpool2") == "2x192x35x35");
  CHECK(net.shape("Mixed_5b.cat") == "2x256x35x35");
  CHECK(net.shape("Mixed_5d.cat") == "2x288x35x35");
  CHECK(net.shape("Mixed_6a.cat") == "2x768x17x17");
  CHECK(net.shape("Mixed_6e.cat") == "2x768x17x17");
  CHECK(net.shape("Mixed_7a.cat") == "2x1280x8x8");
  CHECK(net.shape("Mixed_7c.cat") == "2x2048x8x8");
  CHECK(net.shape("fc") == "2x1000x1x1");
}

TEST_CASE("Inception v3's parameters and statistics have the keys of torchvision's state_dict") {
  const auto keys = Resolved(InceptionV3({})).keys();
  CHECK(keys.size() == 94 * 5 + 2);
  for (const char* module :
       {"Conv2d_1a_3x3", "Conv2d_4a_3x3", "Mixed_5b.branch1x1", "Mixed_5b.branch5x5_2",
        "Mixed_5d.branch3x3dbl_3", "Mixed_5d.branch_pool", "Mixed_6a.branch3x3",
        "Mixed_6a.branch3x3dbl_3", "Mixed_6b.branch7x7_3", "Mixed_6e.branch7x7dbl_5",
        "Mixed_7a.branch3x3_2", "Mixed_7a.branch7x7x3_4", "Mixed_7b.branch3x3_1",
        "Mixed_7b.branch3x3_2a", "Mixed_7c.branch3x3_2b", "Mixed_7c.branch3x3dbl_2",
        "Mixed_7c.branch3x3dbl_3a", "Mixed_7c.branch3x3dbl_3b", "Mixed_7c.branch_pool"}) {
    CAPTURE(module);
    CHECK(keys.count(std::string(module) + ".conv.weight") == 1);
    CHECK(keys.count(std::string(module) + ".conv.bias") == 0);
    CHECK(keys.count(std::string(module) + ".bn.running_var") == 1);
  }
  CHECK(keys.count("fc.bias") == 1);
}

TEST_CASE("Inception v3 normalises with an epsilon of 1e-3 and averages the padding") {
  const Resolved net(InceptionV3({}));
  CHECK(net.layer("Conv2d_1a_3x3.bn").layer.As<BatchNorm>()->epsilon == 1e-3F);
  CHECK(net.layer("Mixed_5b.avg_pool").layer.As<AveragePool>()->count_padding);
}

TEST_CASE("Inception v3 takes images of size 75 and larger") {
  CHECK(Resolve(InceptionV3({.image = 75}), Mode::kTraining).ok());
  CHECK_FALSE(Resolve(InceptionV3({.image = 74}), Mode::kTraining).ok());
  CHECK_FALSE(Resolve(InceptionV3({.image = 298, .aux_logits = true}), Mode::kTraining).ok());
}

}  // namespace
}  // namespace neap::nets

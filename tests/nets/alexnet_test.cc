#include "neap/nets/alexnet.h"

#include <doctest/doctest.h>

#include "neap/core/base/units.h"
#include "neap/nets/registry.h"
#include "tests/nets/resolved.h"

namespace neap::nets {
namespace {

TEST_CASE("AlexNet has torchvision's 61,100,840 parameters under torchvision's names") {
  const Resolved net(AlexNet({}));
  CHECK(ParameterCount(net.graph()) == 61'100'840);
  CHECK(net.keys() ==
        std::set<std::string>{"features.0.weight", "features.0.bias", "features.3.weight",
                              "features.3.bias", "features.6.weight", "features.6.bias",
                              "features.8.weight", "features.8.bias", "features.10.weight",
                              "features.10.bias", "classifier.1.weight", "classifier.1.bias",
                              "classifier.4.weight", "classifier.4.bias", "classifier.6.weight",
                              "classifier.6.bias"});
}

TEST_CASE(
    "AlexNet's last pooling gives 6x6 at 224, where torchvision's adaptive one is the identity") {
  const Resolved net(AlexNet({.batch = 2}));
  CHECK(net.shape("features.0") == "2x64x55x55");
  CHECK(net.shape("features.2") == "2x64x27x27");
  CHECK(net.shape("features.3") == "2x192x27x27");
  CHECK(net.shape("features.5") == "2x192x13x13");
  CHECK(net.shape("features.12") == "2x256x6x6");
  CHECK(net.layer("classifier.1").spec.params[0].tensor.shape.ToString() == "4096x256x6x6");
  CHECK(net.shape("classifier.6") == "2x1000x1x1");
}

TEST_CASE("AlexNet's classifier drops before its first and second fully connected layer") {
  const Resolved net(AlexNet({}));
  CHECK(net.layer("classifier.0").layer.type() == "dropout");
  CHECK(net.layer("classifier.3").layer.type() == "dropout");
}

TEST_CASE("both AlexNets accept the image sizes that their header states, and none smaller") {
  CHECK(Resolve(AlexNet({.image = 63}), Mode::kTraining).ok());
  CHECK_FALSE(Resolve(AlexNet({.image = 62}), Mode::kTraining).ok());
  CHECK(Resolve(AlexNetPaper({.image = 67}), Mode::kTraining).ok());
  CHECK_FALSE(Resolve(AlexNetPaper({.image = 66}), Mode::kTraining).ok());
  for (const int64_t image : {224, 254}) {
    CHECK(Resolved(AlexNet({.image = image})).shape("features.12") == "1x256x6x6");
  }
  CHECK(Resolved(AlexNet({.image = 255})).shape("features.12") == "1x256x7x7");
}

TEST_CASE("the paper's AlexNet is the 23 layers of its footnote, in that order") {
  const Resolved net(AlexNetPaper({.batch = 200}));
  std::string types;
  int layers = 0;
  for (const ResolvedLayer& layer : net.graph().layers) {
    if (layer.inputs.empty()) continue;
    ++layers;
    types += std::string(layer.layer.type()) + " ";
  }
  CHECK(layers == 23);
  CHECK(types ==
        "convolution relu lrn max_pool convolution relu lrn max_pool "
        "convolution relu convolution relu convolution relu max_pool "
        "fully_connected relu dropout fully_connected relu dropout fully_connected "
        "softmax_cross_entropy ");
}

TEST_CASE("the paper's AlexNet keeps 1587.533 MiB in 24 tensors at batch 200") {
  const Resolved net(AlexNetPaper({.batch = 200}));
  int64_t total = 0;
  int tensors = 0;
  for (const ResolvedLayer& layer : net.graph().layers) {
    if (layer.name == "labels") continue;
    total += layer.spec.output.size_bytes();
    ++tensors;
  }
  CHECK(tensors == 24);
  CHECK(static_cast<double>(total) / kMiB == doctest::Approx(1587.533).epsilon(3e-7));
}

TEST_CASE("the paper's AlexNet has one tower of 96-256-384-384-256 maps") {
  const Resolved net(AlexNetPaper({.batch = 200}));
  CHECK(net.shape("input") == "200x3x227x227");
  CHECK(net.shape("conv1") == "200x96x55x55");
  CHECK(net.shape("pool1") == "200x96x27x27");
  CHECK(net.shape("conv2") == "200x256x27x27");
  CHECK(net.shape("pool2") == "200x256x13x13");
  CHECK(net.shape("conv3") == "200x384x13x13");
  CHECK(net.shape("conv4") == "200x384x13x13");
  CHECK(net.shape("conv5") == "200x256x13x13");
  CHECK(net.shape("pool5") == "200x256x6x6");
  CHECK(net.shape("loss") == "200x1000x1x1");
  CHECK(ParameterCount(net.graph()) == 62'378'344);
}

}  // namespace
}  // namespace neap::nets

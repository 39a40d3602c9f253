#include "neap/nets/segmentation/dilated_resnet.h"

#include <doctest/doctest.h>

#include "neap/layers/convolution.h"
#include "tests/nets/resolved.h"

namespace neap::nets {
namespace {

TEST_CASE("dilated ResNets with an auxiliary head have torchvision's numbers of parameters") {
  const auto with = [](const ResNetVariant& backbone) {
    return DilatedResNetOptions{.backbone = backbone, .image = 64, .aux_logits = true};
  };
  CHECK(Parameters(DeepLabV3(with(kResNet50))) == 42'004'074);
  CHECK(Parameters(DeepLabV3(with(kResNet101))) == 60'996'202);
  CHECK(Parameters(FcnResNet(with(kResNet50))) == 35'322'218);
  CHECK(Parameters(FcnResNet(with(kResNet101))) == 54'314'346);
}

TEST_CASE("dilated ResNets keep an eighth of the size, the first block of a stage dilates less") {
  const Resolved net(DeepLabV3({.image = 72, .classes = 5, .aux_logits = true}));
  CHECK(net.shape("backbone.layer2.3.relu3") == "2x512x9x9");
  CHECK(net.shape("backbone.layer4.2.relu3") == "2x2048x9x9");
  const auto dilation = [&](const std::string& layer) {
    return net.layer("backbone." + layer).layer.As<Convolution>()->dilation;
  };
  CHECK(dilation("layer3.0.conv2") == Extents(1));
  CHECK(dilation("layer3.1.conv2") == Extents(2));
  CHECK(dilation("layer4.0.conv2") == Extents(2));
  CHECK(dilation("layer4.2.conv2") == Extents(4));
  CHECK(net.shape("classifier.0.cat") == "2x1280x9x9");
  CHECK(net.shape("loss") == "2x5x72x72");
  CHECK(net.layer("aux.loss").spec.loss_weight == 0.5F);
}

TEST_CASE("parameters of dilated ResNets have torchvision's keys") {
  const auto deeplab = Resolved(DeepLabV3({.image = 64, .aux_logits = true})).keys();
  for (const char* key : {"backbone.conv1.weight", "backbone.layer3.0.downsample.1.running_mean",
                          "classifier.0.convs.0.0.weight", "classifier.0.convs.3.1.bias",
                          "classifier.0.convs.4.1.weight", "classifier.0.convs.4.2.running_var",
                          "classifier.0.project.0.weight", "classifier.1.weight",
                          "classifier.2.weight", "classifier.4.bias", "aux_classifier.0.weight",
                          "aux_classifier.1.bias", "aux_classifier.4.weight"}) {
    CAPTURE(key);
    CHECK(deeplab.count(key) == 1);
  }
  const auto fcn = Resolved(FcnResNet({.image = 64})).keys();
  CHECK(fcn.size() == 53 * 5 + 5 + 2);
  CHECK(fcn.count("classifier.4.weight") == 1);
}

}  // namespace
}  // namespace neap::nets

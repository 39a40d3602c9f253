#include "neap/nets/mobile/mobilenet_v2.h"

#include <doctest/doctest.h>

#include "neap/layers/convolution.h"
#include "neap/nets/registry.h"
#include "tests/nets/resolved.h"

namespace neap::nets {
namespace {

TEST_CASE("MobileNetV2 has torchvision's number of parameters, also in other widths") {
  CHECK(Parameters(MobileNetV2({})) == 3'504'872);
  CHECK(Parameters(MobileNetV2({.width = 0.5})) == 1'968'680);
  CHECK(Parameters(MobileNetV2({.width = 1.4})) == 6'108'776);
}

// Of torchvision's state_dict, 52 batch norms have a num_batches_tracked each.
TEST_CASE("MobileNetV2's parameters and statistics have the keys of torchvision's state_dict") {
  const auto keys = Resolved(MobileNetV2({})).keys();
  CHECK(keys.size() == 314 - 52);
  for (const char* key :
       {"features.0.0.weight", "features.0.1.running_mean", "features.1.conv.0.0.weight",
        "features.1.conv.0.1.bias", "features.1.conv.1.weight", "features.1.conv.2.running_var",
        "features.2.conv.0.0.weight", "features.2.conv.1.0.weight", "features.2.conv.2.weight",
        "features.17.conv.3.bias", "features.18.0.weight", "features.18.1.weight",
        "classifier.1.weight", "classifier.1.bias"}) {
    CAPTURE(key);
    CHECK(keys.count(key) == 1);
  }
}

TEST_CASE("MobileNetV2's shapes are torchvision's, and every other convolution is depthwise") {
  const Resolved net(MobileNetV2({.batch = 2}));
  CHECK(net.shape("features.0.2") == "2x32x112x112");
  CHECK(net.shape("features.1.conv.2") == "2x16x112x112");
  CHECK(net.shape("features.2.conv.0.2") == "2x96x112x112");
  CHECK(net.shape("features.3.add") == "2x24x56x56");
  CHECK(net.shape("features.13.add") == "2x96x14x14");
  CHECK(net.shape("features.17.conv.3") == "2x320x7x7");
  CHECK(net.shape("features.18.2") == "2x1280x7x7");
  CHECK(net.count("add") == 10);
  CHECK(net.count("clip") == 35);
  int depthwise = 0;
  for (const ResolvedLayer& layer : net.graph().layers) {
    const auto* const convolution = layer.layer.As<Convolution>();
    if (convolution == nullptr || convolution->groups == 1) continue;
    CHECK(convolution->groups == convolution->out_channels);
    ++depthwise;
  }
  CHECK(depthwise == 17);
}

TEST_CASE("MobileNetV2 takes 8x8 digits") {
  const Resolved net(MobileNetV2({.width = 0.25, .image = 8, .classes = 10, .channels = 1}));
  CHECK(net.shape("features.0.2") == "1x8x4x4");
  CHECK(net.shape("features.18.2") == "1x1280x1x1");
}

}  // namespace
}  // namespace neap::nets

#include "neap/nets/mobile/mobilenet_v3.h"

#include <doctest/doctest.h>

#include "neap/layers/batch_norm.h"
#include "neap/nets/registry.h"
#include "tests/nets/resolved.h"

namespace neap::nets {
namespace {

TEST_CASE("MobileNetV3 has torchvision's numbers of parameters") {
  CHECK(Parameters(MobileNetV3({})) == 5'483'032);
  CHECK(Parameters(MobileNetV3({.large = false})) == 2'542'856);
}

// Of torchvision's state_dicts, 46 and 34 batch norms have a num_batches_tracked each.
TEST_CASE("MobileNetV3's parameters and statistics have the keys of torchvision's state_dict") {
  const auto large = Resolved(MobileNetV3({})).keys();
  CHECK(large.size() == 312 - 46);
  for (const char* key :
       {"features.0.0.weight", "features.1.block.0.0.weight", "features.1.block.1.1.bias",
        "features.4.block.1.1.running_var", "features.4.block.2.fc1.weight",
        "features.4.block.2.fc2.bias", "features.4.block.3.0.weight", "features.16.1.running_mean",
        "classifier.0.weight", "classifier.3.bias"}) {
    CAPTURE(key);
    CHECK(large.count(key) == 1);
  }
  const auto small = Resolved(MobileNetV3({.large = false})).keys();
  CHECK(small.size() == 244 - 34);
  CHECK(small.count("features.1.block.1.fc1.weight") == 1);
  CHECK(small.count("features.12.0.weight") == 1);
}

TEST_CASE("MobileNetV3's shapes are torchvision's") {
  const Resolved net(MobileNetV3({.batch = 2}));
  CHECK(net.shape("features.1.add") == "2x16x112x112");
  CHECK(net.shape("features.4.block.2.fc1") == "2x24x1x1");
  CHECK(net.shape("features.4.block.2.mul") == "2x72x28x28");
  CHECK(net.shape("features.16.2") == "2x960x7x7");
  CHECK(net.shape("classifier.0") == "2x1280x1x1");
  CHECK(net.count("multiply") == 8);
  CHECK(net.count("hard_sigmoid") == 8);
  CHECK(net.count("hard_swish") == 21);
  const Resolved small(MobileNetV3({.large = false}));
  CHECK(small.shape("features.12.2") == "1x576x7x7");
  CHECK(small.shape("classifier.0") == "1x1024x1x1");
}

TEST_CASE("MobileNetV3's batch norms have torchvision's epsilon and momentum") {
  const Resolved net(MobileNetV3({}));
  for (const ResolvedLayer& layer : net.graph().layers) {
    if (const auto* const norm = layer.layer.As<BatchNorm>())
      CHECK(*norm == BatchNorm{.epsilon = 1e-3F, .momentum = 0.01F});
  }
}

}  // namespace
}  // namespace neap::nets

#include "neap/nets/mobile/efficientnet.h"

#include <doctest/doctest.h>

#include "neap/layers/batch_norm.h"
#include "neap/nets/registry.h"
#include "tests/nets/resolved.h"

namespace neap::nets {
namespace {

TEST_CASE("EfficientNets have torchvision's numbers of parameters, and their images") {
  const int64_t parameters[] = {5'288'548, 7'794'184, 9'109'994, 12'233'232};
  const int64_t images[] = {224, 240, 288, 300};
  for (int variant = 0; variant < 4; ++variant) {
    CAPTURE(variant);
    const EfficientNetOptions options = EfficientNetB(variant);
    CHECK(Parameters(EfficientNet(options)) == parameters[variant]);
    CHECK(options.image == images[variant]);
  }
}

// Of torchvision's state_dict, 49 batch norms have a num_batches_tracked each.
TEST_CASE("EfficientNet-B0's parameters and statistics have the keys of torchvision's state_dict") {
  const auto keys = Resolved(EfficientNet({})).keys();
  CHECK(keys.size() == 360 - 49);
  for (const char* key :
       {"features.0.0.weight", "features.1.0.block.0.0.weight", "features.1.0.block.1.fc1.bias",
        "features.1.0.block.2.1.running_mean", "features.2.1.block.2.fc2.weight",
        "features.7.0.block.3.0.weight", "features.8.1.bias", "classifier.1.weight"}) {
    CAPTURE(key);
    CHECK(keys.count(key) == 1);
  }
}

TEST_CASE("EfficientNet-B0's shapes are torchvision's") {
  const Resolved net(EfficientNet({.batch = 2}));
  CHECK(net.shape("features.0.2") == "2x32x112x112");
  CHECK(net.shape("features.1.0.block.1.fc1") == "2x8x1x1");
  CHECK(net.shape("features.2.0.block.2.fc1") == "2x4x1x1");
  CHECK(net.shape("features.2.1.add") == "2x24x56x56");
  CHECK(net.shape("features.6.3.block.2.mul") == "2x1152x7x7");
  CHECK(net.shape("features.8.2") == "2x1280x7x7");
  CHECK(net.count("multiply") == 16);
  CHECK(net.count("sigmoid") == 16);
  CHECK(net.count("add") == 9);
  for (const ResolvedLayer& layer : net.graph().layers) {
    if (const auto* const norm = layer.layer.As<BatchNorm>()) CHECK(*norm == BatchNorm{});
  }
}

}  // namespace
}  // namespace neap::nets

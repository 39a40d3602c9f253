#include "neap/nets/residual/convnext.h"

#include <doctest/doctest.h>

#include "neap/layers/dropout.h"
#include "neap/nets/registry.h"
#include "tests/nets/resolved.h"

namespace neap::nets {
namespace {

TEST_CASE("ConvNeXts have torchvision's numbers of parameters and its keys") {
  const Resolved net(ConvNeXt({}));
  CHECK(ParameterCount(net.graph()) == 28'589'128);
  CHECK(ParameterCount(Resolved(ConvNeXt({.variant = kConvNeXtSmall})).graph()) == 50'223'688);
  CHECK(ParameterCount(Resolved(ConvNeXt({.variant = kConvNeXtBase})).graph()) == 88'591'464);
  const auto keys = net.keys();
  CHECK(keys.size() == 182);
  for (const char* key :
       {"features.0.0.weight", "features.0.1.bias", "features.1.0.layer_scale",
        "features.1.0.block.0.weight", "features.1.2.block.2.bias", "features.2.0.weight",
        "features.2.1.bias", "features.5.8.block.3.weight", "features.7.2.block.5.bias",
        "features.7.2.layer_scale", "classifier.0.weight", "classifier.2.weight"}) {
    CAPTURE(key);
    CHECK(keys.count(key) == 1);
  }
}

TEST_CASE("files have the linear layers of a ConvNeXt as torchvision's have them") {
  const Resolved net(ConvNeXt({}));
  const auto in_files = [&](const std::string& layer) {
    return net.layer(layer).spec.params[0].in_files.shape;
  };
  CHECK(in_files("features.1.0.block.3") == Shape{384, 96});
  CHECK(in_files("features.1.0.block.5") == Shape{96, 384});
  CHECK(in_files("features.7.2.block.3") == Shape{3072, 768});
  CHECK(in_files("features.7.2.block.5") == Shape{768, 3072});
  CHECK(in_files("features.2.1") == Shape{});  // a convolution
}

TEST_CASE("ConvNeXt-T halves the image before three stages, after a quarter in its stem") {
  const Resolved net(ConvNeXt({.batch = 2}));
  CHECK(net.shape("features.0.1") == "2x96x56x56");
  CHECK(net.shape("features.1.2.block.4") == "2x384x56x56");
  CHECK(net.shape("features.3.2.add") == "2x192x28x28");
  CHECK(net.shape("features.5.8.add") == "2x384x14x14");
  CHECK(net.shape("features.7.2.add") == "2x768x7x7");
  CHECK(net.layer("features.1.0").spec.params[0].saved_shape == Shape{96, 1, 1});
}

TEST_CASE("the rate of stochastic depth of a ConvNeXt grows from none to that of the last block") {
  const Resolved net(ConvNeXt({}));
  CHECK(net.count("stochastic_depth") == 17);  // of 18 blocks
  const auto rate = [&](const std::string& block) {
    return net.layer(block + ".stochastic_depth").layer.As<StochasticDepth>()->rate;
  };
  CHECK(rate("features.1.1") == doctest::Approx(0.1 / 17));
  CHECK(rate("features.7.2") == doctest::Approx(0.1));
}

}  // namespace
}  // namespace neap::nets

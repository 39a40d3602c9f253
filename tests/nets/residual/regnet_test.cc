#include "neap/nets/residual/regnet.h"

#include <doctest/doctest.h>

#include "neap/nets/registry.h"
#include "tests/nets/resolved.h"

namespace neap::nets {
namespace {

TEST_CASE("RegNetY-400MF has torchvision's number of parameters and its keys") {
  const Resolved net(RegNetY({}));
  CHECK(ParameterCount(net.graph()) == 4'344'144);
  const auto keys = net.keys();
  for (const char* key :
       {"stem.0.weight", "stem.1.running_mean", "trunk_output.block1.block1-0.proj.0.weight",
        "trunk_output.block1.block1-0.f.a.0.weight", "trunk_output.block2.block2-2.f.b.1.bias",
        "trunk_output.block3.block3-5.f.se.fc1.weight",
        "trunk_output.block4.block4-0.f.se.fc2.bias",
        "trunk_output.block4.block4-5.f.c.1.running_var", "fc.weight", "fc.bias"}) {
    CAPTURE(key);
    CHECK(keys.count(key) == 1);
  }
  CHECK(keys.count("trunk_output.block2.block2-1.proj.0.weight") == 0);
}

TEST_CASE("RegNetY-400MF has groups of 8 channels, and halves the image in every stage") {
  const Resolved net(RegNetY({.batch = 2}));
  CHECK(net.shape("stem.2") == "2x32x112x112");
  CHECK(net.shape("trunk_output.block1.block1-0.activation") == "2x48x56x56");
  CHECK(net.shape("trunk_output.block2.block2-0.f.se.fc1") == "2x12x1x1");
  CHECK(net.shape("trunk_output.block4.block4-5.activation") == "2x440x7x7");
  CHECK(net.layer("trunk_output.block3.block3-0.f.b.0").spec.params[0].tensor.shape ==
        Shape{208, 8, 3, 3});
}

TEST_CASE("RegNetY-3.2GF has torchvision's number of parameters, with groups of 24 channels") {
  const Resolved net(RegNetY({.variant = kRegNetY3200MF}));
  CHECK(ParameterCount(net.graph()) == 19'436'338);
  CHECK(net.layer("trunk_output.block4.block4-0.f.b.0").spec.params[0].tensor.shape ==
        Shape{1512, 24, 3, 3});
}

}  // namespace
}  // namespace neap::nets

#include "neap/nets/segmentation/unet.h"

#include <doctest/doctest.h>

#include "neap/nets/registry.h"
#include "tests/nets/resolved.h"

namespace neap::nets {
namespace {

TEST_CASE("U-Net has the published numbers of parameters") {
  CHECK(Parameters(UNet({})) == 31'030'658);
  CHECK(Parameters(UNet({.channels = 3, .batch_norm = true})) == 31'037'698);
}

TEST_CASE("U-Net goes down four levels and comes back to the image's size") {
  const Resolved net(UNet({.image = 64, .classes = 5, .batch = 2}));
  CHECK(net.shape("inc.double_conv.3") == "2x64x64x64");
  CHECK(net.shape("down4.maxpool_conv.1.double_conv.3") == "2x1024x4x4");
  CHECK(net.shape("up1.up") == "2x512x8x8");
  CHECK(net.shape("up1.cat") == "2x1024x8x8");
  CHECK(net.shape("up4.cat") == "2x128x64x64");
  CHECK(net.shape("loss") == "2x5x64x64");
  CHECK(net.shape("labels") == "2x64x64");
}

TEST_CASE("with batch norm U-Net has the keys of Pytorch-UNet") {
  const auto keys = Resolved(UNet({.image = 16, .batch_norm = true})).keys();
  CHECK(keys.size() == 18 * (1 + 4) + 4 * 2 + 2);
  for (const char* key : {"inc.double_conv.0.weight", "inc.double_conv.1.running_var",
                          "inc.double_conv.3.weight", "down4.maxpool_conv.1.double_conv.4.bias",
                          "up1.up.bias", "up4.conv.double_conv.3.weight", "outc.conv.bias"}) {
    CAPTURE(key);
    CHECK(keys.count(key) == 1);
  }
  CHECK(keys.count("inc.double_conv.0.bias") == 0);
}

TEST_CASE("U-Net takes images of a multiple of 16") {
  CHECK(Resolve(UNet({.image = 48}), Mode::kTraining).ok());
  CHECK_FALSE(Resolve(UNet({.image = 40}), Mode::kTraining).ok());
}

}  // namespace
}  // namespace neap::nets

#include "neap/nets/segmentation/fcn.h"

#include <doctest/doctest.h>

#include "neap/layers/crop.h"
#include "neap/nets/registry.h"
#include "tests/nets/resolved.h"

namespace neap::nets {
namespace {

TEST_CASE("FCN-8s has the number of parameters of the authors' network") {
  CHECK(Parameters(Fcn8s({})) == 134'489'759);
}

TEST_CASE("FCN-8s labels every pixel") {
  const Resolved net(Fcn8s({.image = 384, .batch = 2}));
  CHECK(net.shape("score") == "2x21x384x384");
  CHECK(net.shape("labels") == "2x384x384");
  CHECK(net.shape("loss") == "2x21x384x384");
}

TEST_CASE("FCN-8s's branches have the sizes to which the authors' network crops them") {
  const Resolved net(Fcn8s({.image = 500}));
  CHECK(net.shape("conv1_1") == "1x64x698x698");
  CHECK(net.shape("pool3") == "1x256x87x87");
  CHECK(net.shape("pool4") == "1x512x43x43");
  CHECK(net.shape("fc6") == "1x4096x15x15");
  CHECK(net.shape("upscore2") == "1x21x32x32");
  CHECK(net.shape("fuse_pool4") == "1x21x32x32");
  CHECK(net.shape("upscore_pool4") == "1x21x66x66");
  CHECK(net.shape("upscore8") == "1x21x536x536");
  CHECK(net.layer("score_pool4c").layer.As<Crop>()->offset == Extents(5));
  CHECK(net.layer("score_pool3c").layer.As<Crop>()->offset == Extents(9));
  CHECK(net.layer("score").layer.As<Crop>()->offset == Extents(31));
}

TEST_CASE("FCN-8s's parameters have the keys of the authors' network") {
  const auto keys = Resolved(Fcn8s({})).keys();
  CHECK(keys.size() == 2 * (13 + 2 + 3) + 3);
  for (const char* key :
       {"conv1_1.weight", "conv5_3.bias", "fc6.weight", "fc7.bias", "score_fr.weight",
        "score_pool3.bias", "upscore_pool4.weight", "upscore8.weight"}) {
    CAPTURE(key);
    CHECK(keys.count(key) == 1);
  }
  CHECK(keys.count("upscore2.bias") == 0);
}

TEST_CASE("FCN-8s takes images of every size from 26") {
  CHECK_FALSE(Resolve(Fcn8s({.image = 25}), Mode::kTraining).ok());
  for (int64_t image = 26; image <= 300; ++image) {
    CAPTURE(image);
    CHECK(Resolve(Fcn8s({.image = image}), Mode::kTraining).ok());
  }
}

}  // namespace
}  // namespace neap::nets

#include "neap/nets/vgg.h"

#include <doctest/doctest.h>

#include "neap/nets/registry.h"
#include "tests/nets/resolved.h"

namespace neap::nets {
namespace {

TEST_CASE("VGG-13, VGG-16 and VGG-19 have torchvision's numbers of parameters") {
  CHECK(Parameters(Vgg({.convolutions = kVgg13})) == 133'047'848);
  CHECK(Parameters(Vgg({})) == 138'357'544);
  CHECK(Parameters(Vgg({.convolutions = kVgg19})) == 143'667'240);
}

TEST_CASE("VGG is named after its layers with weights") {
  CHECK(Vgg({}).options().name == "vgg16");
  CHECK(Vgg({.convolutions = kVgg19}).options().name == "vgg19");
  CHECK(Vgg({.convolutions = kVgg101}).options().name == "vgg101");
}

TEST_CASE("VGG-16's layers have their positions in torchvision's nn.Sequential") {
  const Resolved net(Vgg({.batch = 4}));
  for (const char* convolution :
       {"features.0", "features.2", "features.5", "features.7", "features.10", "features.12",
        "features.14", "features.17", "features.19", "features.21", "features.24", "features.26",
        "features.28"}) {
    CHECK(net.layer(convolution).layer.type() == "convolution");
  }
  for (const char* pool :
       {"features.4", "features.9", "features.16", "features.23", "features.30"}) {
    CHECK(net.layer(pool).layer.type() == "max_pool");
  }
  CHECK(net.layer("classifier.2").layer.type() == "dropout");
  CHECK(net.layer("classifier.5").layer.type() == "dropout");
  CHECK(net.keys().size() == 32);
  CHECK(net.keys().count("classifier.6.bias") == 1);
}

TEST_CASE("VGG-19's last convolution is features.34") {
  const Resolved net(Vgg({.convolutions = kVgg19}));
  CHECK(net.layer("features.34").layer.type() == "convolution");
  CHECK(net.layer("features.36").layer.type() == "max_pool");
}

TEST_CASE("VGG-101 has 98 convolutions, and 92 GB of activations at moDNN's batch") {
  const Resolved net(Vgg({.convolutions = kVgg101, .batch = 128}));
  CHECK(net.count("convolution") == 98);
  CHECK(net.count("fully_connected") == 3);
  double bytes = 0;
  for (const ResolvedLayer& layer : net.graph().layers) {
    if (!layer.name.starts_with("features.") || layer.layer.type() == "max_pool") continue;
    bytes += static_cast<double>(layer.spec.output.size_bytes());
  }
  CHECK(bytes == doctest::Approx(92.5e9).epsilon(0.001));
}

TEST_CASE("VGG-16's images halve five times, from 224 to 7") {
  const Resolved net(Vgg({.batch = 4}));
  CHECK(net.shape("features.0") == "4x64x224x224");
  CHECK(net.shape("features.4") == "4x64x112x112");
  CHECK(net.shape("features.9") == "4x128x56x56");
  CHECK(net.shape("features.16") == "4x256x28x28");
  CHECK(net.shape("features.23") == "4x512x14x14");
  CHECK(net.shape("features.30") == "4x512x7x7");
  CHECK(net.shape("classifier.6") == "4x1000x1x1");
}

TEST_CASE("VGG takes images from 32, and its last pooling gives 7x7 up to 255") {
  CHECK(Resolve(Vgg({.image = 32}), Mode::kTraining).ok());
  CHECK_FALSE(Resolve(Vgg({.image = 31}), Mode::kTraining).ok());
  CHECK(Resolved(Vgg({.image = 255})).shape("features.30") == "1x512x7x7");
}

}  // namespace
}  // namespace neap::nets

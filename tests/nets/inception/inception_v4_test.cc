#include "neap/nets/inception/inception_v4.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "neap/layers/batch_norm.h"
#include "neap/layers/pooling.h"
#include "neap/nets/registry.h"
#include "tests/nets/resolved.h"

namespace neap::nets {
namespace {

TEST_CASE("Inception v4 has the published number of parameters") {
  CHECK(Parameters(InceptionV4({})) == 42'679'816);
}

TEST_CASE("Inception v4 has SuperNeurons' 515 layers without the forks") {
  const Resolved net(InceptionV4({}));
  CHECK(net.count("convolution") == 149);
  CHECK(net.count("batch_norm") == 149);
  CHECK(net.count("relu") == 149);
  CHECK(net.count("max_pool") == 4);
  CHECK(net.count("average_pool") == 14);
  CHECK(net.count("concat") == 19);
  // dropout, the global pool, the classifier and the loss; the input and the labels
  CHECK(net.graph().layers.size() == 3 * 149 + 4 + 14 + 19 + 4 + 2);
  // SuperNeurons has a fork for every activation that several layers read.
  std::vector<int> readers(net.graph().layers.size());
  for (const ResolvedLayer& layer : net.graph().layers) {
    for (const LayerOutput input : layer.inputs) ++readers[input.layer.index()];
  }
  const auto forks = std::count_if(readers.begin(), readers.end(), [](int n) { return n > 1; });
  CHECK(net.graph().layers.size() + static_cast<size_t>(forks) == 515);
}

TEST_CASE("Inception v4's modules have the paper's shapes") {
  const Resolved net(InceptionV4({.batch = 2}));
  CHECK(net.shape("features.0.conv") == "2x32x149x149");
  CHECK(net.shape("features.3.cat") == "2x160x73x73");
  CHECK(net.shape("features.4.cat") == "2x192x71x71");
  CHECK(net.shape("features.5.cat") == "2x384x35x35");
  CHECK(net.shape("features.9.cat") == "2x384x35x35");
  CHECK(net.shape("features.10.cat") == "2x1024x17x17");
  CHECK(net.shape("features.17.cat") == "2x1024x17x17");
  CHECK(net.shape("features.18.cat") == "2x1536x8x8");
  CHECK(net.shape("features.21.cat") == "2x1536x8x8");
  CHECK(net.shape("global_pool") == "2x1536x1x1");
  CHECK(net.shape("last_linear") == "2x1000x1x1");
}

TEST_CASE("Inception v4's parameters and statistics have the keys of timm's state_dict") {
  const auto keys = Resolved(InceptionV4({})).keys();
  CHECK(keys.size() == 149 * 5 + 2);
  for (const char* module : {"features.0",
                             "features.2",
                             "features.3.conv",
                             "features.4.branch0.1",
                             "features.4.branch1.3",
                             "features.5.conv",
                             "features.6.branch0",
                             "features.9.branch2.2",
                             "features.9.branch3.1",
                             "features.10.branch0",
                             "features.10.branch1.2",
                             "features.11.branch2.4",
                             "features.18.branch0.1",
                             "features.18.branch1.3",
                             "features.19.branch1_0",
                             "features.19.branch1_1a",
                             "features.19.branch1_1b",
                             "features.20.branch2_0",
                             "features.20.branch2_1",
                             "features.20.branch2_2",
                             "features.21.branch2_3a",
                             "features.21.branch2_3b",
                             "features.21.branch3.1"}) {
    CAPTURE(module);
    CHECK(keys.count(std::string(module) + ".conv.weight") == 1);
    CHECK(keys.count(std::string(module) + ".conv.bias") == 0);
    CHECK(keys.count(std::string(module) + ".bn.running_var") == 1);
  }
  CHECK(keys.count("last_linear.bias") == 1);
}

TEST_CASE("Inception v4 normalises with an epsilon of 1e-3 and excludes padding from averages") {
  const Resolved net(InceptionV4({}));
  CHECK(net.layer("features.0.bn").layer.As<BatchNorm>()->epsilon == 1e-3F);
  CHECK_FALSE(net.layer("features.6.branch3.0").layer.As<AveragePool>()->count_padding);
}

TEST_CASE("Inception v4 takes images of size 75 and larger") {
  CHECK(Resolve(InceptionV4({.image = 75}), Mode::kTraining).ok());
  CHECK_FALSE(Resolve(InceptionV4({.image = 74}), Mode::kTraining).ok());
}

}  // namespace
}  // namespace neap::nets

// Networks of ten thousand layers and more are resolved in time that grows with their number alone.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/graph/graph.h"
#include "neap/layers/activation.h"
#include "neap/layers/channel_split.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/softmax_cross_entropy.h"

namespace neap {
namespace {

std::string WeightOf(int layer) { return absl::StrCat("fc", layer, ".weight"); }

Graph ManyFullyConnected(int count) {
  Graph net({.name = "chain", .batch = 2});
  std::string x = net.Input({4, 1, 1});
  for (int i = 0; i < count; ++i)
    x = net.Add(absl::StrCat("fc", i), FullyConnected{.out_features = 4}, {x});
  net.Loss(x, SoftmaxCrossEntropy{});
  return net;
}

void CheckOwnedByFirst(const Graph& net, int count) {
  const ResolvedGraph resolved = Resolve(net, Mode::kTraining).value();
  int shared = 0;
  for (const ResolvedLayer& layer : resolved.layers) {
    if (layer.shared.empty()) continue;
    ++shared;
    REQUIRE(layer.shared ==
            std::vector<SharedParam>{{absl::StrCat(layer.name, ".weight"), WeightOf(0)}});
    REQUIRE(ParamName(layer, layer.spec.params[0]) == WeightOf(0));
  }
  CHECK(shared == count - 1);
}

TEST_CASE("a long chain of shared parameters ends at the one that is not shared, in any order") {
  constexpr int kCount = 20'000;
  Graph forwards = ManyFullyConnected(kCount), backwards = forwards;
  for (int i = 1; i < kCount; ++i) forwards.Share(WeightOf(i), WeightOf(i - 1));
  for (int i = kCount - 1; i > 0; --i) backwards.Share(WeightOf(i), WeightOf(i - 1));
  CheckOwnedByFirst(forwards, kCount);
  CheckOwnedByFirst(backwards, kCount);
  forwards.Share(WeightOf(0), WeightOf(kCount - 1));
  CHECK(std::string(Resolve(forwards, Mode::kTraining).status().message()) ==
        "parameter 'fc1.weight' owns itself");
}

TEST_CASE("a parameter whose owners own each other is refused, the first that is stated") {
  Graph net = ManyFullyConnected(6);
  net.Share(WeightOf(5), WeightOf(4));  // whose owner is none of the others
  net.Share(WeightOf(0), WeightOf(1));
  net.Share(WeightOf(1), WeightOf(2));
  net.Share(WeightOf(2), WeightOf(3));
  CHECK(Resolve(net, Mode::kTraining).ok());
  net.Share(WeightOf(3), WeightOf(1));
  CHECK(std::string(Resolve(net, Mode::kTraining).status().message()) ==
        "parameter 'fc0.weight' owns itself");
}

TEST_CASE("the outputs of ten thousand layers have names of their own") {
  constexpr int kCount = 10'000;
  Graph net({.name = "splits", .batch = 2});
  const std::string x = net.Input({2, 1, 1});
  for (int i = 0; i < kCount; ++i) {
    const std::string split =
        net.Add(absl::StrCat("split", i), ChannelSplit{.channels = {1, 1}}, {x});
    net.Output(OutputName(split, 1));
  }
  net.Loss(net.Add("fc", FullyConnected{.out_features = 2}, {x}), SoftmaxCrossEntropy{});
  const ResolvedGraph resolved = Resolve(net, Mode::kTraining).value();
  int splits = 0;
  for (const ResolvedLayer& layer : resolved.layers) {
    if (layer.spec.output_count() == 1) continue;
    ++splits;
    REQUIRE(layer.results ==
            std::vector<LayerResult>{{.name = OutputName(layer.name, 1), .output = 1}});
  }
  CHECK(splits == kCount);
  net.Add("split9000:1", Relu{}, {"split9000"});
  CHECK(std::string(Resolve(net, Mode::kTraining).status().message()) ==
        "layer 'split9000:1': an output of 'split9000' has this name");
}

TEST_CASE(
    "of several layers with names of one layer's outputs, the first that is stated is named") {
  Graph net({.name = "splits", .batch = 2});
  const std::string x = net.Input({3, 1, 1});
  net.Add("split", ChannelSplit{.channels = {1, 1, 1}}, {x});
  for (const char* const name : {"split:2", "split:1"}) net.Output(net.Add(name, Relu{}, {x}));
  net.Loss(net.Add("fc", FullyConnected{.out_features = 2}, {"split"}), SoftmaxCrossEntropy{});
  CHECK(std::string(Resolve(net, Mode::kTraining).status().message()) ==
        "layer 'split:2': an output of 'split' has this name");
}

}  // namespace
}  // namespace neap

#include "tests/core/run/two_towers.h"

#include <doctest/doctest.h>

#include "neap/layers/activation.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/join.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/layers/target_loss.h"

namespace neap {

TowerFeeds TowerFeedsFor(int64_t examples) {
  TowerFeeds given;
  for (int64_t i = 0; i < examples; ++i) {
    const auto x = static_cast<float>(i);
    for (int64_t k = 0; k < 3; ++k) given.image.push_back(0.3F * x - 0.2F * static_cast<float>(k));
    for (int64_t k = 0; k < 3; ++k) given.age.push_back(0.1F * x + 0.4F * static_cast<float>(k));
    given.estimate.push_back(0.5F * x);
    given.species.push_back(static_cast<int32_t>(i % 2));
  }
  return given;
}

Graph TwoTowers(const TowerOptions& options, int64_t batch) {
  Graph net({.name = "towers", .batch = batch});
  net.Input("image", {3, 1, 1});
  net.Input("age", {3, 1, 1});
  net.Add("a", FullyConnected{.out_features = 5}, {"image"});
  net.Add("b", FullyConnected{.out_features = 5}, {"age"});
  net.Add("sum", Add{}, {"a", "b"});
  net.Add("hidden", Relu{}, {"sum"});
  if (options.shares) {
    net.Share("b.weight", "a.weight");
    net.Share("b.bias", "a.bias");
  }
  if (options.classifies) {
    net.Add("scores", FullyConnected{.out_features = 2}, {"hidden"});
    net.Input("species", {}, DType::kInt32);
    net.Loss("species_loss", SoftmaxCrossEntropy{}, {"scores", "species"});
    net.Output("scores");
  }
  if (options.estimates) {
    net.Add("years", FullyConnected{.out_features = 1}, {"hidden"});
    net.Input("estimate", {1, 1, 1}, DType::kFp32);
    net.Loss("age_loss", MeanSquaredError{.weight = options.weight}, {"years", "estimate"});
    net.Output("years");
  }
  return net;
}

const NamedTensor& OutputCalled(const StepResult& result, const std::string& name) {
  for (const NamedTensor& output : result.outputs) {
    if (output.name == name) return output;
  }
  FAIL("no output ", name);
  return result.outputs.front();
}

std::vector<float> Stored(Session& session, const std::string& name) {
  return session.Values(name).value();
}

}  // namespace neap

// A built network, resolved and looked up by layer name.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "neap/core/graph/graph.h"
#include "neap/nets/registry.h"

namespace neap {

class Resolved {
 public:
  explicit Resolved(const Graph& net) {
    auto graph = Resolve(net, Mode::kTraining);
    REQUIRE_MESSAGE(graph.ok(), graph.status().ToString());
    graph_ = *std::move(graph);
  }

  const ResolvedGraph& graph() const { return graph_; }

  const ResolvedLayer& layer(const std::string& name) const {
    for (const ResolvedLayer& layer : graph_.layers) {
      if (layer.name == name) return layer;
    }
    FAIL("no layer is called " << name);
    return graph_.layers.front();
  }
  std::string shape(const std::string& name) const {
    return layer(name).spec.output.shape.ToString();
  }
  // The number of layers of that type.
  int count(std::string_view type) const {
    return static_cast<int>(
        std::count_if(graph_.layers.begin(), graph_.layers.end(),
                      [&](const ResolvedLayer& layer) { return layer.layer.type() == type; }));
  }

  // In execution order.
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const ResolvedLayer& layer : graph_.layers) names.push_back(layer.name);
    return names;
  }
  // Keys of the state_dict that PyTorch would give this network, without num_batches_tracked.
  std::set<std::string> keys() const {
    std::set<std::string> keys;
    for (const ResolvedLayer& layer : graph_.layers) {
      for (const ParamSpec& param : layer.spec.params) keys.insert(layer.name + "." + param.name);
      for (const StateSpec& state : layer.spec.states) {
        if (!IsLoss(layer.role)) keys.insert(layer.name + "." + state.name);
      }
    }
    return keys;
  }

 private:
  ResolvedGraph graph_;
};

// The number of trainable parameters of a network.
inline int64_t Parameters(const Graph& net) { return nets::ParameterCount(Resolved(net).graph()); }

}  // namespace neap

#include "neap/nets/initial_values.h"

#include <cmath>

#include "neap/layers/convolution.h"
#include "neap/layers/fully_connected.h"

namespace neap::nets {
namespace {

template <typename T>
void Set(const std::optional<InitialWeights>& init, Layer& layer) {
  const T* const found = layer.As<T>();
  if (found == nullptr || !init.has_value() || found->init != InitialWeights{}) return;
  T changed = *found;
  changed.init = *init;
  layer = changed;
}

// U(-a, a) with the variance 2 / fan.
InitialWeights UniformOfVariance2Over(int64_t fan) {
  return {.weight = InitialWeights::Rule::kUniform,
          .scale = std::sqrt(6.0F / static_cast<float>(fan)),
          .zero_bias = true};
}

}  // namespace

InitialWeights HeUniform(int64_t fan_in) { return UniformOfVariance2Over(fan_in); }

InitialWeights XavierUniform(int64_t fan_in, int64_t fan_out) {
  return UniformOfVariance2Over(fan_in + fan_out);
}

Graph WithInitialValues(const Graph& net, const InitRules& rules) {
  Graph changed(net.options(), net);
  for (GraphLayer layer : net.layers()) {
    Set<Convolution>(rules.convolution, layer.layer);
    Set<FullyConnected>(rules.linear, layer.layer);
    changed.Add(std::move(layer));
  }
  return changed;
}

}  // namespace neap::nets

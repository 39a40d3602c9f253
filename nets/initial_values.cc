#include "neap/nets/initial_values.h"

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

}  // namespace

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

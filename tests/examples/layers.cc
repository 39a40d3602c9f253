// The examples in the headers of layers, compiled and not run.
#include <string>

#include "neap/core/graph/graph.h"
#include "neap/layers/activation.h"
#include "neap/layers/attention/attention.h"
#include "neap/layers/convolution.h"
#include "neap/layers/initial_weights.h"
#include "neap/layers/multiply.h"
#include "neap/layers/prelu.h"
#include "neap/layers/resize/resize.h"

namespace neap::examples {

// layers/initial_weights.h
Convolution BeginsByHe() {
  Convolution conv = {.out_channels = 64, .kernel = 7};
  conv.init = {.weight = InitialWeights::Rule::kHeFanOut, .zero_bias = true};
  return conv;
}

// docs/initial-values.md
std::string AddByHe(Graph& net, std::string x) {
  x = net.Add("conv1",
              neap::Convolution{.out_channels = 64,
                                .init = {.weight = neap::InitialWeights::Rule::kHeFanOut}},
              {x});
  return x;
}

// layers/attention/attention.h
void AddAttention(Graph& net, std::string x) {
  const std::string qkv = net.Add("qkv", Convolution{.out_channels = 3 * 768}, {x});
  x = net.Add("attention", Attention{.heads = 12, .causal = true}, {qkv});
}

// layers/multiply.h
void AddMultiply(Graph& net, std::string x, const std::string& squeezed) {
  const std::string weights = net.Add("scale", Sigmoid{}, {squeezed});  // N x C x 1 x 1
  x = net.Add("mul", Multiply{}, {x, weights});
}

// layers/prelu.h
void AddPrelu(Graph& net, std::string x) {
  x = net.Add("prelu", Prelu{.slopes = 64}, {x});  // x has 64 channels
}

// docs/own-network.md
std::string Upsample(Graph& net, std::string x) {
  x = net.Add("up", neap::Resize{.scales = {2}, .mode = neap::Resize::Mode::kLinear}, {x});
  return x;
}

// layers/resize/resize.h
void AddResize(Graph& net, const std::string& x) {
  net.Add("up", Resize{.scales = {2}, .mode = Resize::Mode::kLinear}, {x});
}

}  // namespace neap::examples

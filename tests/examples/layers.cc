// The examples in the headers of layers, compiled and not run.
#include <string>

#include "neap/core/graph/graph.h"
#include "neap/layers/activation.h"
#include "neap/layers/multiply.h"

namespace neap::examples {

// layers/multiply.h
void AddMultiply(Graph& net, std::string x, const std::string& squeezed) {
  const std::string weights = net.Add("scale", Sigmoid{}, {squeezed});  // N x C x 1 x 1
  x = net.Add("mul", Multiply{}, {x, weights});
}

}  // namespace neap::examples

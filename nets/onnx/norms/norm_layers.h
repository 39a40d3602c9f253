// The norms of each image, as an ONNX graph states them: with parameters, or with a product and a
// sum behind them.
#pragma once

#include <cstdint>
#include <vector>

#include "neap/core/step/layer.h"
#include "neap/nets/onnx/network_builder.h"

namespace neap::nets {

// Whether it is a GroupNorm, InstanceNorm or LayerNorm.
bool IsNorm(const Layer& layer);
// The same norm with parameters.
Layer WithParameters(const Layer& norm);

// A weight of ones and a bias of zeros, which are no values of the graph.
std::vector<Weight> PlaceholderParameters(int64_t channels);

}  // namespace neap::nets

// The norms of each image, as an ONNX graph states them: with parameters, or with a product and a
// sum behind them.
#pragma once

#include <cstdint>

#include "neap/core/step/layer.h"
#include "neap/nets/onnx/network_builder.h"

namespace neap::nets {

// Whether it is a GroupNorm, InstanceNorm or LayerNorm.
bool IsNorm(const Layer& layer);
// The same norm with a weight, and with a bias or without.
Layer WithParameters(const Layer& norm, bool bias);

// A weight of ones, which is no value of the graph.
Weight PlaceholderWeight(int64_t channels);

}  // namespace neap::nets

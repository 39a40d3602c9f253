#include "neap/nets/onnx/norms/norm_layers.h"

#include <cstddef>
#include <vector>

#include "neap/layers/norm/group_norm.h"
#include "neap/layers/norm/layer_norm.h"

namespace neap::nets {
namespace {

template <typename Norm>
Layer WithParametersOf(Norm norm, bool bias) {
  norm.affine = true;
  norm.bias = bias;
  return norm;
}

}  // namespace

bool IsNorm(const Layer& layer) {
  return layer.As<GroupNorm>() != nullptr || layer.As<InstanceNorm>() != nullptr ||
         layer.As<LayerNorm>() != nullptr;
}

Layer WithParameters(const Layer& norm, bool bias) {
  if (const auto* const group = norm.As<GroupNorm>()) return WithParametersOf(*group, bias);
  if (const auto* const instance = norm.As<InstanceNorm>())
    return WithParametersOf(*instance, bias);
  return WithParametersOf(*norm.As<LayerNorm>(), bias);
}

Weight PlaceholderWeight(int64_t channels) {
  return {.name = "weight",
          .tensor = Constant{.dims = {channels},
                             .values = std::vector<double>(static_cast<size_t>(channels), 1.0),
                             .type = onnx_schema::Tensor::FLOAT},
          .value = ""};
}

}  // namespace neap::nets

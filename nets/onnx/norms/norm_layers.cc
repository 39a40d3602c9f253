#include "neap/nets/onnx/norms/norm_layers.h"

#include "neap/layers/norm/group_norm.h"
#include "neap/layers/norm/layer_norm.h"

namespace neap::nets {
namespace {

Constant Repeated(double value, int64_t count) {
  return {.dims = {count},
          .values = std::vector<double>(static_cast<size_t>(count), value),
          .type = onnx_schema::Tensor::FLOAT};
}

}  // namespace

bool IsNorm(const Layer& layer) {
  return layer.As<GroupNorm>() != nullptr || layer.As<InstanceNorm>() != nullptr ||
         layer.As<LayerNorm>() != nullptr;
}

Layer WithParameters(const Layer& norm) {
  if (const auto* const group = norm.As<GroupNorm>())
    return GroupNorm{.groups = group->groups, .epsilon = group->epsilon, .affine = true};
  if (const auto* const instance = norm.As<InstanceNorm>())
    return InstanceNorm{.epsilon = instance->epsilon, .affine = true};
  return LayerNorm{.epsilon = norm.As<LayerNorm>()->epsilon, .affine = true};
}

std::vector<Weight> PlaceholderParameters(int64_t channels) {
  return {{.name = "weight", .tensor = Repeated(1, channels), .value = ""},
          {.name = "bias", .tensor = Repeated(0, channels), .value = ""}};
}

}  // namespace neap::nets

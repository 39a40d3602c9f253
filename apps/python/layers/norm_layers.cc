// Norms and dropout as functions of their fields.
#include <nanobind/nanobind.h>

#include "apps/python/bindings.h"
#include "neap/core/step/layer.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/dropout.h"
#include "neap/layers/lrn.h"
#include "neap/layers/norm/group_norm.h"
#include "neap/layers/norm/layer_norm.h"
#include "neap/layers/norm/softmax.h"

namespace neap::python {
namespace {

namespace nb = nanobind;
using nb::literals::operator""_a;

}  // namespace

void BindNormLayers(nb::module_& module) {
  module.def(
      "BatchNorm",
      [](float epsilon, float momentum) {
        return Layer(BatchNorm{.epsilon = epsilon, .momentum = momentum});
      },
      "epsilon"_a = BatchNorm{}.epsilon, "momentum"_a = BatchNorm{}.momentum,
      "As torch.nn.BatchNorm1d, 2d and 3d.");
  module.def(
      "GroupNorm",
      [](int64_t groups, float epsilon, bool affine, bool bias) {
        return Layer(
            GroupNorm{.groups = groups, .epsilon = epsilon, .affine = affine, .bias = bias});
      },
      "groups"_a, "epsilon"_a = GroupNorm{}.epsilon, "affine"_a = GroupNorm{}.affine,
      "bias"_a = GroupNorm{}.bias,
      "As torch.nn.GroupNorm; without `bias`, if it is `affine`, it has a weight alone.");
  module.def(
      "InstanceNorm",
      [](float epsilon, bool affine, bool bias) {
        return Layer(InstanceNorm{.epsilon = epsilon, .affine = affine, .bias = bias});
      },
      "epsilon"_a = InstanceNorm{}.epsilon, "affine"_a = InstanceNorm{}.affine,
      "bias"_a = InstanceNorm{}.bias,
      "As torch.nn.InstanceNorm1d, 2d and 3d without running statistics.");
  module.def(
      "LayerNorm",
      [](float epsilon, bool affine, bool bias) {
        return Layer(LayerNorm{.epsilon = epsilon, .affine = affine, .bias = bias});
      },
      "epsilon"_a = LayerNorm{}.epsilon, "affine"_a = LayerNorm{}.affine,
      "bias"_a = LayerNorm{}.bias,
      "As torch.nn.LayerNorm over the channels at each position, which it reads as the last axis.");
  module.def(
      "Softmax",
      [](int64_t axis, bool logarithm) {
        return Layer(Softmax{.axis = axis, .logarithm = logarithm});
      },
      "axis"_a = Softmax{}.axis, "logarithm"_a = false,
      "As torch.nn.Softmax(dim=axis), over the channels (1) or along a spatial axis (2, ...); with "
      "`logarithm`, as torch.nn.LogSoftmax.");
  module.def(
      "LocalResponseNorm",
      [](int64_t size, float alpha, float beta, float k) {
        return Layer(LocalResponseNorm{.size = size, .alpha = alpha, .beta = beta, .k = k});
      },
      "size"_a = 5, "alpha"_a = LocalResponseNorm{}.alpha, "beta"_a = LocalResponseNorm{}.beta,
      "k"_a = LocalResponseNorm{}.k, "As torch.nn.LocalResponseNorm; `size` is odd.");
  module.def(
      "Dropout",
      [](float probability, bool per_channel) {
        return Layer(Dropout{.probability = probability, .per_channel = per_channel});
      },
      "probability"_a = Dropout{}.probability, "per_channel"_a = false,
      "As torch.nn.Dropout; with `per_channel`, as torch.nn.Dropout1d, 2d and 3d.");
  module.def(
      "StochasticDepth", [](float rate) { return Layer(StochasticDepth{.rate = rate}); },
      "rate"_a = StochasticDepth{}.rate,
      "As torchvision.ops.StochasticDepth with mode 'row': whole images are dropped.");
}

}  // namespace neap::python

// The losses as functions of their fields.
#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include <utility>
#include <vector>

#include "apps/python/bindings.h"
#include "neap/core/step/layer.h"
#include "neap/layers/loss/dice_loss.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/layers/target_loss.h"

namespace neap::python {
namespace {

namespace nb = nanobind;
using nb::literals::operator""_a;

}  // namespace

void BindLossLayers(nb::module_& module) {
  module.def(
      "SoftmaxCrossEntropy",
      [](float label_smoothing, float weight, std::vector<float> class_weights) {
        return Layer(SoftmaxCrossEntropy{.label_smoothing = label_smoothing,
                                         .weight = weight,
                                         .class_weights = std::move(class_weights)});
      },
      "label_smoothing"_a = 0.0F, "weight"_a = 1.0F, "class_weights"_a = std::vector<float>(),
      "As torch.nn.CrossEntropyLoss, for Graph.loss(), with a weight in the sum of all losses. The "
      "mean is over all\nlabels, also with a weight for each class.");
  module.def(
      "DiceLoss",
      [](bool background, bool batch, float smooth, float cross_entropy, float weight) {
        return Layer(DiceLoss{.background = background,
                              .batch = batch,
                              .smooth = smooth,
                              .cross_entropy = cross_entropy,
                              .weight = weight});
      },
      "background"_a = DiceLoss{}.background, "batch"_a = DiceLoss{}.batch,
      "smooth"_a = DiceLoss{}.smooth, "cross_entropy"_a = DiceLoss{}.cross_entropy,
      "weight"_a = 1.0F,
      "Soft Dice of the softmax, of each image or over the batch, plus cross-entropy times its "
      "weight, for Graph.loss().\nnnU-Net trains with DiceLoss(background=False, "
      "cross_entropy=1).");
  module.def(
      "MeanSquaredError", [](float weight) { return Layer(MeanSquaredError{.weight = weight}); },
      "weight"_a = 1.0F,
      "As torch.nn.MSELoss, for Graph.loss(targets=), with a weight in the sum of all losses.");
  module.def(
      "BinaryCrossEntropy",
      [](float weight, float positive_weight) {
        return Layer(BinaryCrossEntropy{.weight = weight, .positive_weight = positive_weight});
      },
      "weight"_a = 1.0F, "positive_weight"_a = 1.0F,
      "As torch.nn.BCEWithLogitsLoss, for Graph.loss(targets=), with a weight in the sum of all "
      "losses.");
  module.def(
      "FocalLoss",
      [](float alpha, float gamma, float weight) {
        return Layer(FocalLoss{.alpha = alpha, .gamma = gamma, .weight = weight});
      },
      "alpha"_a = FocalLoss{}.alpha, "gamma"_a = FocalLoss{}.gamma, "weight"_a = 1.0F,
      "As torchvision.ops.sigmoid_focal_loss(reduction='mean'), for Graph.loss(targets=).");
}

}  // namespace neap::python

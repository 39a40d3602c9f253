#include "apps/python/loss_argument.h"

#include <nanobind/stl/string.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "apps/python/errors.h"
#include "neap/layers/loss/dice_loss.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/layers/target_loss.h"
#include "neap/nets/with_loss.h"

namespace neap::python {
namespace {

namespace nb = nanobind;

Layer LossCalled(const std::string& name) {
  if (name == "cross-entropy") return SoftmaxCrossEntropy{};
  if (name == "mse") return MeanSquaredError{};
  if (name == "bce") return BinaryCrossEntropy{};
  Raise(absl::InvalidArgumentError(
      absl::StrCat("loss: '", name.substr(0, 64), "' is not 'cross-entropy', 'mse' or 'bce'")));
}

// The attributes with which a criterion of PyTorch computes something else.
void CheckDefaults(nb::handle criterion, const std::string& type) {
  const auto refuse = [&](const char* attribute, const char* instead = "") {
    throw nb::value_error(
        absl::StrCat("loss: neap's has no ", attribute, " as this ", type, " has", instead)
            .c_str());
  };
  if (nb::cast<std::string>(nb::getattr(criterion, "reduction", nb::str("mean"))) != "mean")
    refuse("reduction but 'mean'");
  const auto has = [&](const char* attribute) {
    return !nb::getattr(criterion, attribute, nb::none()).is_none();
  };
  if (has("weight")) refuse("weight");
  if (has("pos_weight"))
    refuse("pos_weight", "; neap.BinaryCrossEntropy(positive_weight=...) has one for all channels");
  if (nb::cast<int64_t>(nb::getattr(criterion, "ignore_index", nb::int_(-100))) != -100)
    refuse("ignore_index but -100");
}

}  // namespace

Layer ToLoss(nb::handle given) {
  if (nb::isinstance<Layer>(given)) return nb::cast<Layer>(given);
  if (nb::isinstance<nb::str>(given)) return LossCalled(nb::cast<std::string>(given));
  const auto type = nb::cast<std::string>(given.type().attr("__name__"));
  if (type != "CrossEntropyLoss" && type != "MSELoss" && type != "BCEWithLogitsLoss") {
    throw nb::type_error(absl::StrCat("a loss is 'cross-entropy', 'mse', 'bce', a neap.Layer, or a "
                                      "CrossEntropyLoss, MSELoss or BCEWithLogitsLoss of torch.nn, "
                                      "not a ",
                                      type)
                             .c_str());
  }
  CheckDefaults(given, type);
  if (type == "MSELoss") return MeanSquaredError{};
  if (type == "BCEWithLogitsLoss") return BinaryCrossEntropy{};
  const nb::object smoothing = nb::getattr(given, "label_smoothing", nb::float_(0.0));
  return SoftmaxCrossEntropy{.label_smoothing = nb::cast<float>(smoothing)};
}

Graph WithLoss(const Graph& net, const Layer& loss) {
  if (!MakesSoftmax(loss)) return Checked(nets::WithTargetLoss(net, loss));
  return Checked(nets::WithLabelLoss(net, loss));
}

}  // namespace neap::python

#include "neap/layers/fusion/activated_batch_norm.h"

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/operands.h"

namespace neap {
namespace {

using namespace operands;

Layer LayerOf(const ActivatedBatchNorm::Activation& activation) {
  return std::visit([](const auto& layer) { return Layer(layer); }, activation);
}

}  // namespace

std::string ActivatedBatchNorm::Parameters() const {
  const Layer layer = LayerOf(activation);
  const std::string parameters = layer.Parameters();
  return absl::StrCat(norm.Parameters(), " activation=", std::string(layer.type()),
                      parameters.empty() ? "" : absl::StrCat("(", parameters, ")"));
}

absl::StatusOr<LayerSpec> ActivatedBatchNorm::Specify(const LayerContext& context) const {
  ASSIGN_OR_RETURN(LayerSpec spec, norm.Specify(context));
  ASSIGN_OR_RETURN(const LayerSpec behind, LayerOf(activation).Specify(context));
  for (size_t i = 0; i < spec.steps.size(); ++i) {
    spec.steps[i].flops += behind.steps[i].flops;
    if (spec.steps[i].phase == Phase::kBackwardData) spec.steps[i].reads.push_back(Param(1));
  }
  return spec;
}

}  // namespace neap

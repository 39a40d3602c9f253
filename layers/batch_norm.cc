#include "neap/layers/batch_norm.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/operands.h"
#include "neap/core/step/parameter_text.h"
#include "neap/core/step/specify.h"
#include "neap/layers/steps/norm_steps.h"

namespace neap {
namespace {

using namespace operands;

constexpr double kForwardFlopsPerElement = 6;
constexpr double kBackwardFlopsPerElement = 10;

StepSpec TrainingForward(double flops) {
  return {.reads = {X(), Param(0), Param(1)},
          .writes = {Y(), Saved(0), Saved(1)},
          .accumulates = {State(0), State(1)},
          .rerun_reads = {X(), Param(0), Param(1), Saved(0), Saved(1)},
          .in_place = {{Y(), X()}},
          .accumulates_natively = {Slot::kState},
          .flops = flops};
}

StepSpec InferenceForward(double flops) {
  return {.reads = {X(), Param(0), Param(1), State(0), State(1)},
          .writes = {Y()},
          .in_place = {{Y(), X()}},
          .flops = flops};
}

StepSpec Backward(double flops) {
  return {.phase = Phase::kBackwardData,
          .reads = {X(), Dy(), Param(0), Saved(0), Saved(1)},
          .writes = {Dx(), ParamGrad(0), ParamGrad(1)},
          .in_place = {{Dx(), Dy()}},
          .flops = flops};
}

absl::Status CheckOptions(const BatchNorm& layer) {
  RETURN_IF_ERROR(CheckEpsilon(layer.epsilon));
  if (!(layer.momentum >= 0 && layer.momentum <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("momentum ", layer.momentum, " must be in [0, 1]"));
  }
  return absl::OkStatus();
}

}  // namespace

std::string BatchNorm::Parameters() const {
  return ParameterText({{"epsilon", epsilon}, {"momentum", momentum}});
}

absl::StatusOr<LayerSpec> BatchNorm::Specify(const LayerContext& context) const {
  RETURN_IF_ERROR(CheckSpatialInputs(context, 1));
  RETURN_IF_ERROR(CheckOptions(*this));
  const TensorSpec& x = context.inputs[0];
  const TensorSpec per_channel = VectorSpec(x.shape.c());
  const Init zero = {Init::Kind::kConstant, 0};
  const Init one = {Init::Kind::kConstant, 1};
  LayerSpec spec = {
      .output = x,
      .params = NormParams(x.shape.c()),
      .states = {{.name = "running_mean", .tensor = per_channel, .init = zero, .accumulates = true},
                 {.name = "running_var", .tensor = per_channel, .init = one, .accumulates = true}}};
  const double elements = static_cast<double>(x.elements());
  if (context.mode == Mode::kInference) {
    spec.traits.independent_images = true;
    spec.steps = {InferenceForward(2 * elements)};
    return spec;
  }
  spec.saved = {{"mean", per_channel}, {"invstd", per_channel}};
  spec.traits.coupled_by_statistics = true;
  spec.values_per_variance = x.elements() / x.shape.c();
  spec.steps = {TrainingForward(kForwardFlopsPerElement * elements),
                Backward(kBackwardFlopsPerElement * elements)};
  return spec;
}

void AppendPersistent(const LayerSpec& norm, int owner, LayerSpec& fused) {
  for (ParamSpec param : norm.params) {
    param.owner = owner;
    fused.params.push_back(std::move(param));
  }
  for (StateSpec state : norm.states) {
    state.owner = owner;
    fused.states.push_back(std::move(state));
  }
}

}  // namespace neap

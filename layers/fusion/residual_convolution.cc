#include "neap/layers/fusion/residual_convolution.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/operands.h"
#include "neap/core/step/parameter_text.h"
#include "neap/core/step/specify.h"

namespace neap {

using namespace operands;

std::string ResidualConvolution::Parameters() const {
  return ParameterText({{"out_channels", out_channels}, {"bias", bias}});
}

absl::StatusOr<LayerSpec> ResidualConvolution::Specify(const LayerContext& context) const {
  RETURN_IF_ERROR(CheckSpatialInputs(context, 2));
  LayerContext branch = context;
  branch.inputs.pop_back();
  ASSIGN_OR_RETURN(LayerSpec spec, convolution().Specify(branch));
  if (spec.output.layout != Layout::kChannelsLast)
    return absl::InvalidArgumentError("a residual convolution needs the channels last");
  if (context.inputs[1] != spec.output) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cannot add input 1, ", context.inputs[1].ToString(), ", to ", spec.output.ToString()));
  }
  StepSpec& forward = spec.steps[0];
  forward.reads.insert(forward.reads.begin() + 1, X(1));
  forward.flops += static_cast<double>(spec.output.elements());
  if (context.mode == Mode::kTraining) spec.passes_linear_grad = 1;
  return spec;
}

}  // namespace neap

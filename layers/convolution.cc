#include "neap/layers/convolution.h"

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/operands.h"
#include "neap/core/step/parameter_text.h"
#include "neap/core/step/specify.h"
#include "neap/layers/steps/linear_steps.h"

namespace neap {
namespace {

using namespace operands;

absl::Status CheckChannels(const Convolution& layer, const TensorSpec& input) {
  if (layer.out_channels <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("out_channels ", layer.out_channels, " must be positive"));
  }
  if (layer.groups <= 0) {
    return absl::InvalidArgumentError(absl::StrCat("groups ", layer.groups, " must be positive"));
  }
  for (int64_t channels : {input.shape.c(), layer.out_channels}) {
    if (channels % layer.groups == 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(channels, " channels are not divisible by ", layer.groups, " groups"));
  }
  return absl::OkStatus();
}

bool IsDepthwise(const Convolution& layer, const TensorSpec& input) {
  return layer.groups > 1 && layer.groups == input.shape.c() && layer.groups == layer.out_channels;
}

std::vector<ParamSpec> Params(const Convolution& layer, const TensorSpec& input) {
  const Extents kernel = layer.kernel.Along(input.shape.spatial_axes());
  const Shape weight =
      SpatialShape(layer.out_channels, input.shape.c() / layer.groups, kernel.values());
  std::vector<ParamSpec> params = {{.name = "weight",
                                    .tensor = WithShape(input, weight),
                                    .init = WeightInit(layer.init, weight)}};
  if (layer.bias) {
    params.push_back({.name = "bias",
                      .tensor = VectorSpec(layer.out_channels),
                      .init = BiasInit(layer.init, weight)});
  }
  return params;
}

}  // namespace

std::string Convolution::Parameters() const {
  return ParameterText({{"out_channels", out_channels},
                        {"kernel", kernel},
                        {"stride", stride},
                        {"padding", padding},
                        {"dilation", dilation},
                        {"groups", groups},
                        {"bias", bias}});
}

absl::StatusOr<LayerSpec> Convolution::Specify(const LayerContext& context) const {
  RETURN_IF_ERROR(CheckSpatialInputs(context, 1));
  const TensorSpec& x = context.inputs[0];
  const Window window = {kernel, stride, padding, dilation};
  const int axes = x.shape.spatial_axes();
  RETURN_IF_ERROR(CheckWindow(window, axes));
  RETURN_IF_ERROR(CheckChannels(*this, x));
  ASSIGN_OR_RETURN(const Extents out, WindowOutput(x, window));

  LayerSpec spec = {.output = WithShape(x, SpatialShape(x.shape.n(), out_channels, out.values())),
                    .params = Params(*this, x),
                    .traits = {.checkpoint = true,
                               .hides_transfers = true,
                               .divisible = true,
                               .independent_images = true,
                               .multiplies = true,
                               .paper_reads_output = false}};
  const double flops = 2.0 * static_cast<double>(spec.output.elements()) *
                       Product({x.shape.c() / groups, kernel.Along(axes).product()});
  AddLinearSteps(bias, context.mode, flops, spec);
  // The gradient of the residual sum that is also the convolution's input.
  if (context.mode == Mode::kTraining && IsDepthwise(*this, x))
    spec.steps.back().accumulates_natively = {Slot::kAddend};
  return spec;
}

}  // namespace neap

#include "neap/layers/transposed_convolution.h"

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/parameter_text.h"
#include "neap/core/step/specify.h"
#include "neap/layers/initial_weights.h"
#include "neap/layers/linear_steps.h"

namespace neap {
namespace {

absl::StatusOr<Extent2d> OutputExtent(const TransposedConvolution& layer, const Shape& x) {
  const Extent2d out = {WindowedSize(x.h(), layer.kernel.h, layer.stride.h, layer.padding.h),
                        WindowedSize(x.w(), layer.kernel.w, layer.stride.w, layer.padding.w)};
  if (out.h > 0 && out.w > 0) return out;
  return absl::InvalidArgumentError(absl::StrCat("padding ", layer.padding.h, "x", layer.padding.w,
                                                 " leaves no output for the image ", x.h(), "x",
                                                 x.w()));
}

}  // namespace

std::string TransposedConvolution::Parameters() const {
  return ParameterText({{"out_channels", out_channels},
                        {"kernel", kernel},
                        {"stride", stride},
                        {"padding", padding},
                        {"bias", bias},
                        {"bilinear", bilinear}});
}

absl::StatusOr<LayerSpec> TransposedConvolution::Specify(const LayerContext& context) const {
  RETURN_IF_ERROR(CheckImageInputs(context, 1));
  RETURN_IF_ERROR(CheckWindow({kernel, stride, padding}));
  if (out_channels <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("out_channels ", out_channels, " must be positive"));
  }
  const TensorSpec& x = context.inputs[0];
  ASSIGN_OR_RETURN(const Extent2d out, OutputExtent(*this, x.shape));
  const Shape weight = {x.shape.c(), out_channels, kernel.h, kernel.w};
  LayerSpec spec = {
      .output = WithShape(x, {x.shape.n(), out_channels, out.h, out.w}),
      .params = {{.name = "weight",
                  .tensor = WithShape(x, weight),
                  .init = bilinear ? Init{.kind = Init::Kind::kBilinear} : WeightInit({}, weight)}},
      .traits = {.checkpoint = true,
                 .hides_transfers = true,
                 .divisible = true,
                 .independent_images = true,
                 .paper_reads_output = false}};
  if (bias) {
    spec.params.push_back(
        {.name = "bias", .tensor = VectorSpec(out_channels), .init = BiasInit({}, weight)});
  }
  const double flops =
      2.0 * static_cast<double>(x.elements()) * Product({out_channels, kernel.h, kernel.w});
  AddLinearSteps(bias, context.mode, flops, spec);
  return spec;
}

}  // namespace neap

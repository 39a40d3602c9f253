#include "neap/layers/transposed_convolution.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/parameter_text.h"
#include "neap/core/step/specify.h"
#include "neap/layers/steps/linear_steps.h"

namespace neap {
namespace {

absl::StatusOr<Extents> OutputExtent(const TransposedConvolution& layer, const Shape& x) {
  const int axes = x.spatial_axes();
  std::vector<int64_t> out;
  for (int i = 0; i < axes; ++i)
    out.push_back(WindowedSize(x[2 + i], layer.kernel[i], layer.stride[i], layer.padding[i]));
  if (std::all_of(out.begin(), out.end(), [](int64_t extent) { return extent > 0; }))
    return Extents::Of(out);
  return absl::InvalidArgumentError(
      absl::StrCat("padding ", layer.padding.Along(axes).ToString(), " leaves no output for the ",
                   std::string(NameOfSpatial(axes)), " ", Extents::Of(x.spatial()).ToString()));
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
  RETURN_IF_ERROR(CheckSpatialInputs(context, 1));
  const TensorSpec& x = context.inputs[0];
  const int axes = x.shape.spatial_axes();
  RETURN_IF_ERROR(CheckWindow({kernel, stride, padding}, axes));
  if (out_channels <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("out_channels ", out_channels, " must be positive"));
  }
  ASSIGN_OR_RETURN(const Extents out, OutputExtent(*this, x.shape));
  const Shape weight = SpatialShape(x.shape.c(), out_channels, kernel.Along(axes).values());
  LayerSpec spec = {.output = WithShape(x, SpatialShape(x.shape.n(), out_channels, out.values())),
                    .params = {{.name = "weight",
                                .tensor = WithShape(x, weight),
                                .init = bilinear ? Init{.kind = Init::Kind::kBilinear}
                                                 : WeightInit(init, weight)}},
                    .traits = {.checkpoint = true,
                               .hides_transfers = true,
                               .divisible = true,
                               .independent_images = true,
                               .multiplies = true,
                               .paper_reads_output = false}};
  if (bias) {
    spec.params.push_back(
        {.name = "bias", .tensor = VectorSpec(out_channels), .init = BiasInit(init, weight)});
  }
  const double flops = 2.0 * static_cast<double>(x.elements()) *
                       Product({out_channels, kernel.Along(axes).product()});
  AddLinearSteps(bias, context.mode, flops, spec);
  return spec;
}

}  // namespace neap

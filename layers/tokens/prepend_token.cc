#include "neap/layers/tokens/prepend_token.h"

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/operands.h"
#include "neap/core/step/specify.h"

namespace neap {

absl::StatusOr<LayerSpec> PrependToken::Specify(const LayerContext& context) const {
  using namespace operands;
  RETURN_IF_ERROR(CheckSpatialInputs(context, 1));
  const TensorSpec& x = context.inputs[0];
  if (x.shape.spatial_axes() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("input 0 is ", x.ToString(), ", expected a sequence {N, C, T}"));
  }
  const int64_t n = x.shape.n(), c = x.shape.c();
  const TensorSpec weight = WithShape(x, {1, c, 1});
  LayerSpec spec = {.output = WithShape(x, {n, c, x.shape.w() + 1}),
                    .params = {{"weight", weight, WeightInit(init, weight.shape)}},
                    .traits = {.independent_images = true, .paper_reads_output = false}};
  spec.steps.push_back({.reads = {X(), Param(0)}, .writes = {Y()}});
  if (context.mode == Mode::kInference) return spec;
  spec.steps.push_back({.phase = Phase::kBackwardData,
                        .reads = {Dy()},
                        .writes = {Dx(), ParamGrad(0)},
                        .accumulates_natively = {Slot::kParamGrad},
                        .flops = static_cast<double>(n * c)});
  return spec;
}

}  // namespace neap

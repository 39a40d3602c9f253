#include "neap/layers/lrn.h"

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/operands.h"
#include "neap/core/step/parameter_text.h"
#include "neap/core/step/specify.h"

namespace neap {

using namespace operands;

std::string LocalResponseNorm::Parameters() const {
  return ParameterText({{"size", size}, {"alpha", alpha}, {"beta", beta}, {"k", k}});
}

absl::StatusOr<LayerSpec> LocalResponseNorm::Specify(const LayerContext& context) const {
  RETURN_IF_ERROR(CheckSpatialInputs(context, 1));
  if (size <= 0 || size % 2 == 0) {
    return absl::InvalidArgumentError(absl::StrCat("size ", size, " must be odd and positive"));
  }
  if (size > kMaxWindowExtent) {
    return absl::InvalidArgumentError(
        absl::StrCat("size ", size, " must be at most ", kMaxWindowExtent));
  }
  const TensorSpec& x = context.inputs[0];
  const double flops = static_cast<double>(x.elements()) * static_cast<double>(2 * size + 4);
  LayerSpec spec = {.output = x, .traits = {.independent_images = true, .paper_in_place = true}};
  spec.steps.push_back({.reads = {X()}, .writes = {Y()}, .flops = flops});
  if (context.mode == Mode::kInference) return spec;
  spec.steps.push_back({.phase = Phase::kBackwardData,
                        .reads = {X(), Dy()},
                        .writes = {Dx()},
                        .in_place = {{Dx(), Dy()}},
                        .flops = 2 * flops});
  return spec;
}

}  // namespace neap

#include "neap/layers/zero_pad.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/parameter_text.h"
#include "neap/core/step/specify.h"
#include "neap/layers/copy_steps.h"

namespace neap {

std::string ZeroPad::Parameters() const {
  return ParameterText({{"top", top}, {"left", left}, {"bottom", bottom}, {"right", right}});
}

absl::StatusOr<LayerSpec> ZeroPad::Specify(const LayerContext& context) const {
  RETURN_IF_ERROR(CheckImageInputs(context, 1));
  const auto [least, most] = std::minmax({top, left, bottom, right});
  if (least < 0 || most > kMaxWindowExtent) {
    return absl::InvalidArgumentError(
        absl::StrCat(Parameters(), " must be between 0 and ", kMaxWindowExtent));
  }
  const TensorSpec& x = context.inputs[0];
  const int64_t height = x.shape.h() + top + bottom;
  const int64_t width = x.shape.w() + left + right;
  return CopySteps(WithShape(x, {x.shape.n(), x.shape.c(), height, width}), context.mode);
}

}  // namespace neap

#include "neap/layers/channel_shuffle.h"

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/parameter_text.h"
#include "neap/core/step/specify.h"
#include "neap/layers/steps/copy_steps.h"

namespace neap {

std::string ChannelShuffle::Parameters() const { return ParameterText({{"groups", groups}}); }

absl::StatusOr<LayerSpec> ChannelShuffle::Specify(const LayerContext& context) const {
  RETURN_IF_ERROR(CheckSpatialInputs(context, 1));
  const TensorSpec& x = context.inputs[0];
  if (groups < 1 || x.shape.c() % groups != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot shuffle ", x.shape.c(), " channels in ", groups, " groups"));
  }
  return CopySteps(WithShape(x, x.shape), context.mode);
}

}  // namespace neap

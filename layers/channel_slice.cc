#include "neap/layers/channel_slice.h"

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/parameter_text.h"
#include "neap/core/step/specify.h"
#include "neap/layers/steps/copy_steps.h"

namespace neap {

std::string ChannelSlice::Parameters() const {
  return ParameterText({{"first", first}, {"count", count}});
}

absl::StatusOr<LayerSpec> ChannelSlice::Specify(const LayerContext& context) const {
  RETURN_IF_ERROR(CheckSpatialInputs(context, 1));
  const TensorSpec& x = context.inputs[0];
  const int64_t channels = x.shape.c();
  if (first < 0 || count < 1 || count > channels || first > channels - count) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot take ", count, " channels from ", first, " on of ", channels));
  }
  return CopySteps(WithShape(x, SpatialShape(x.shape.n(), count, x.shape.spatial())), context.mode);
}

}  // namespace neap

#include "neap/layers/shape/roll.h"

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/parameter_text.h"
#include "neap/core/step/specify.h"
#include "neap/layers/steps/copy_steps.h"

namespace neap {

std::string Roll::Parameters() const { return ParameterText({{"shift", shift}}); }

absl::StatusOr<LayerSpec> Roll::Specify(const LayerContext& context) const {
  constexpr int64_t kMaxShift = int64_t{1} << 31;
  RETURN_IF_ERROR(CheckSpatialInputs(context, 1));
  const TensorSpec& x = context.inputs[0];
  RETURN_IF_ERROR(CheckSuits("shift", shift, x.shape.spatial_axes()));
  for (const int64_t of_axis : shift.values()) {
    if (of_axis >= -kMaxShift && of_axis <= kMaxShift) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("shift ", shift.ToString(), " is beyond 2^31 positions"));
  }
  return CopySteps(x, context.mode);
}

}  // namespace neap

#include "neap/layers/zero_pad.h"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/parameter_text.h"
#include "neap/core/step/specify.h"
#include "neap/layers/steps/copy_steps.h"

namespace neap {

std::string ZeroPad::Parameters() const {
  std::string text =
      ParameterText({{"top", top}, {"left", left}, {"bottom", bottom}, {"right", right}});
  if (front == 0 && back == 0) return text;
  return absl::StrCat(text, " ", ParameterText({{"front", front}, {"back", back}}));
}

absl::StatusOr<LayerSpec> ZeroPad::Specify(const LayerContext& context) const {
  RETURN_IF_ERROR(CheckSpatialInputs(context, 1));
  const auto [least, most] = std::minmax({top, left, bottom, right, front, back});
  if (least < 0 || most > kMaxWindowExtent) {
    return absl::InvalidArgumentError(
        absl::StrCat(Parameters(), " must be between 0 and ", kMaxWindowExtent));
  }
  const TensorSpec& x = context.inputs[0];
  const int axes = x.shape.spatial_axes();
  const std::array<int64_t, kMaxSpatialAxes> zeros = {front + back, top + bottom, left + right};
  const auto first = zeros.end() - axes;
  if (std::any_of(zeros.begin(), first, [](int64_t count) { return count > 0; })) {
    return absl::InvalidArgumentError(absl::StrCat(Parameters(), " pads an axis that the ",
                                                   std::string(NameOfSpatial(axes)),
                                                   " does not have"));
  }
  std::vector<int64_t> extents;
  std::transform(first, zeros.end(), x.shape.spatial().begin(), std::back_inserter(extents),
                 std::plus<>());
  return CopySteps(WithShape(x, SpatialShape(x.shape.n(), x.shape.c(), extents)), context.mode);
}

}  // namespace neap

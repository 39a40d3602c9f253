#include "neap/layers/shape/tile.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/parameter_text.h"
#include "neap/core/step/specify.h"
#include "neap/layers/steps/copy_steps.h"

namespace neap {

std::string Tile::Parameters() const {
  return ParameterText({{"repeats", repeats}, {"channels", channels}});
}

absl::StatusOr<LayerSpec> Tile::Specify(const LayerContext& context) const {
  RETURN_IF_ERROR(CheckSpatialInputs(context, 1));
  const TensorSpec& x = context.inputs[0];
  const int axes = x.shape.spatial_axes();
  RETURN_IF_ERROR(CheckSuits("repeats", repeats, axes));
  std::vector<int64_t> counts = {channels}, extents;
  for (int i = 0; i < axes; ++i) {
    counts.push_back(repeats[i]);
    extents.push_back(SaturatingProduct(x.shape[2 + i], repeats[i]));
  }
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  if (*least < 1 || *most > kMaxWindowExtent) {
    return absl::InvalidArgumentError(
        absl::StrCat(Parameters(), " must be between 1 and ", kMaxWindowExtent));
  }
  const int64_t c = SaturatingProduct(x.shape.c(), channels);
  return CopySteps(WithShape(x, SpatialShape(x.shape.n(), c, extents)), context.mode);
}

}  // namespace neap

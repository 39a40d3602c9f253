#include "neap/layers/shape/permute.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/specify.h"
#include "neap/layers/steps/copy_steps.h"

namespace neap {

std::string Permute::Parameters() const { return absl::StrCat("axes=", absl::StrJoin(axes, ",")); }

absl::StatusOr<LayerSpec> Permute::Specify(const LayerContext& context) const {
  RETURN_IF_ERROR(CheckSpatialInputs(context, 1));
  const TensorSpec& x = context.inputs[0];
  std::vector<int64_t> sorted = axes;
  std::sort(sorted.begin(), sorted.end());
  bool has_all = static_cast<int>(axes.size()) == x.shape.rank() - 1;
  for (size_t i = 0; i < sorted.size(); ++i)
    has_all = has_all && sorted[i] == static_cast<int64_t>(i) + 1;
  if (!has_all) {
    return absl::InvalidArgumentError(absl::StrCat("axes ", absl::StrJoin(axes, ", "),
                                                   " are not 1 to ", x.shape.rank() - 1,
                                                   " in some order"));
  }
  Shape::Dims dims = {x.shape.n()};
  for (const int64_t axis : axes) dims.push_back(x.shape[static_cast<int>(axis)]);
  return CopySteps(WithShape(x, Shape(std::move(dims))), context.mode);
}

}  // namespace neap

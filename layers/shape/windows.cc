#include "neap/layers/shape/windows.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/parameter_text.h"
#include "neap/core/step/specify.h"
#include "neap/layers/steps/copy_steps.h"

namespace neap {
absl::StatusOr<std::vector<int64_t>> WindowsOf(const Extents& window,
                                               absl::Span<const int64_t> image) {
  const int axes = static_cast<int>(image.size());
  RETURN_IF_ERROR(CheckSuits("window", window, axes));
  std::vector<int64_t> windows = {1, 1};
  for (int i = 0; i < axes; ++i) {
    const int64_t extent = image[static_cast<size_t>(i)];
    if (window[i] < 1 || extent % window[i] != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("the ", std::string(NameOfSpatial(axes)), " ", Extents::Of(image).ToString(),
                       " is not filled by windows ", window.Along(axes).ToString()));
    }
    windows[0] *= extent / window[i];
    windows[1] *= window[i];
  }
  return windows;
}

std::string WindowPartition::Parameters() const { return ParameterText({{"window", window}}); }

absl::StatusOr<LayerSpec> WindowPartition::Specify(const LayerContext& context) const {
  RETURN_IF_ERROR(CheckSpatialInputs(context, 1));
  const TensorSpec& x = context.inputs[0];
  ASSIGN_OR_RETURN(const std::vector<int64_t> windows, WindowsOf(window, x.shape.spatial()));
  return CopySteps(WithShape(x, SpatialShape(x.shape.n(), x.shape.c(), windows)), context.mode);
}

std::string WindowMerge::Parameters() const {
  return ParameterText({{"window", window}, {"size", size}});
}

absl::StatusOr<LayerSpec> WindowMerge::Specify(const LayerContext& context) const {
  RETURN_IF_ERROR(CheckImageInputs(context, 1));
  const TensorSpec& x = context.inputs[0];
  const Extents image = size.is_one_number() ? size.Along(2) : size;
  ASSIGN_OR_RETURN(const std::vector<int64_t> windows, WindowsOf(window, image.values()));
  if (x.shape.spatial() != absl::MakeConstSpan(windows)) {
    return absl::InvalidArgumentError(absl::StrCat("input 0 is ", x.ToString(), ", but ",
                                                   image.ToString(), " has ", windows[0],
                                                   " windows of ", windows[1], " positions"));
  }
  return CopySteps(WithShape(x, SpatialShape(x.shape.n(), x.shape.c(), image.values())),
                   context.mode);
}

}  // namespace neap

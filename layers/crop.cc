#include "neap/layers/crop.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/parameter_text.h"
#include "neap/core/step/specify.h"
#include "neap/layers/steps/copy_steps.h"

namespace neap {
namespace {

// offset + size <= whole, without overflow.
bool Fits(int64_t offset, int64_t size, int64_t whole) {
  return offset >= 0 && size >= 1 && size <= whole && offset <= whole - size;
}

}  // namespace

std::string Crop::Parameters() const { return ParameterText({{"size", size}, {"offset", offset}}); }

absl::StatusOr<LayerSpec> Crop::Specify(const LayerContext& context) const {
  RETURN_IF_ERROR(CheckSpatialInputs(context, 1));
  const TensorSpec& x = context.inputs[0];
  const int axes = x.shape.spatial_axes();
  RETURN_IF_ERROR(CheckSuits("size", size, axes));
  RETURN_IF_ERROR(CheckSuits("offset", offset, axes));
  const Extents cut = size.Along(axes), from = offset.Along(axes);
  for (int i = 0; i < axes; ++i) {
    if (Fits(from[i], cut[i], x.shape[2 + i])) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "cannot cut ", cut.ToString(), " at ", absl::StrJoin(from.values(), ","), " out of the ",
        std::string(NameOfSpatial(axes)), " ", Extents::Of(x.shape.spatial()).ToString()));
  }
  return CopySteps(WithShape(x, SpatialShape(x.shape.n(), x.shape.c(), cut.values())),
                   context.mode);
}

}  // namespace neap

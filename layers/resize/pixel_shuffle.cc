#include "neap/layers/resize/pixel_shuffle.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/parameter_text.h"
#include "neap/core/step/specify.h"
#include "neap/layers/steps/copy_steps.h"

namespace neap {
namespace {

template <typename Shuffle>
std::string ShuffleText(const Shuffle& shuffle) {
  std::string text = ParameterText({{"factor", shuffle.factor}});
  if (shuffle.blocks_first) absl::StrAppend(&text, " ", ParameterText({{"blocks_first", true}}));
  return text;
}

// Saturates.
int64_t PixelsOfBlock(int64_t factor, int axes) {
  int64_t pixels = 1;
  for (int i = 0; i < axes; ++i) pixels = SaturatingProduct(pixels, factor);
  return pixels;
}

absl::Status CheckFactor(int64_t factor) {
  if (factor >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("factor ", factor, " must be positive"));
}

}  // namespace

std::string PixelShuffle::Parameters() const { return ShuffleText(*this); }

absl::StatusOr<LayerSpec> PixelShuffle::Specify(const LayerContext& context) const {
  RETURN_IF_ERROR(CheckSpatialInputs(context, 1));
  RETURN_IF_ERROR(CheckFactor(factor));
  const TensorSpec& x = context.inputs[0];
  const int64_t pixels = PixelsOfBlock(factor, x.shape.spatial_axes());
  if (x.shape.c() % pixels != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot make blocks of ", pixels, " pixels of ", x.shape.c(), " channels"));
  }
  std::vector<int64_t> out;
  for (const int64_t extent : x.shape.spatial()) out.push_back(SaturatingProduct(extent, factor));
  return CopySteps(WithShape(x, SpatialShape(x.shape.n(), x.shape.c() / pixels, out)),
                   context.mode);
}

std::string PixelUnshuffle::Parameters() const { return ShuffleText(*this); }

absl::StatusOr<LayerSpec> PixelUnshuffle::Specify(const LayerContext& context) const {
  RETURN_IF_ERROR(CheckSpatialInputs(context, 1));
  RETURN_IF_ERROR(CheckFactor(factor));
  const TensorSpec& x = context.inputs[0];
  const int axes = x.shape.spatial_axes();
  std::vector<int64_t> out;
  for (const int64_t extent : x.shape.spatial()) {
    if (extent % factor != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("cannot divide the ", std::string(NameOfSpatial(axes)), " ",
                       Extents::Of(x.shape.spatial()).ToString(), " into blocks of ", factor));
    }
    out.push_back(extent / factor);
  }
  const int64_t channels = SaturatingProduct(x.shape.c(), PixelsOfBlock(factor, axes));
  return CopySteps(WithShape(x, SpatialShape(x.shape.n(), channels, out)), context.mode);
}

}  // namespace neap

#include "neap/layers/resize/resize.h"

#include <array>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "neap/core/base/enum_name.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/parameter_text.h"
#include "neap/core/step/specify.h"
#include "neap/layers/resize/resample_axes.h"
#include "neap/layers/steps/copy_steps.h"

namespace neap {
namespace {

constexpr std::array<std::string_view, 3> kModes = {"nearest", "linear", "cubic"};
constexpr std::array<std::string_view, 3> kCoordinates = {"half_pixel", "align_corners",
                                                          "asymmetric"};
constexpr std::array<std::string_view, 4> kRoundings = {"floor", "ceil", "prefer_floor",
                                                        "prefer_ceil"};

template <typename Enum, size_t kCount>
absl::StatusOr<Enum> ParseIn(const std::array<std::string_view, kCount>& names,
                             std::string_view what, std::string_view text) {
  for (size_t i = 0; i < kCount; ++i) {
    if (names[i] == text) return static_cast<Enum>(i);
  }
  const auto append = [](std::string* out, std::string_view known) { out->append(known); };
  return absl::InvalidArgumentError(absl::StrCat("unknown ", std::string(what), " '",
                                                 std::string(text),
                                                 "'; known: ", absl::StrJoin(names, ", ", append)));
}

std::string SizeText(const Resize& resize) {
  const std::string scales = ParameterText({{"scales", absl::MakeConstSpan(resize.scales)}});
  if (!resize.sizes.has_value()) return scales;
  const std::string sizes = ParameterText({{"sizes", *resize.sizes}});
  return resize.scales.empty() ? sizes : absl::StrCat(sizes, " ", scales);
}

absl::Status CheckScales(const Resize& resize, int axes) {
  const size_t count = resize.scales.size();
  if (count != 1 && count != static_cast<size_t>(axes)) {
    return absl::InvalidArgumentError(absl::StrCat(
        SizeText(resize), " has ", count, " numbers, but the ", std::string(NameOfSpatial(axes)),
        " has ", axes, axes == 1 ? " axis" : " axes"));
  }
  for (const double scale : resize.scales) {
    if (IsScale(scale)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(SizeText(resize), " must be between 2^-30 and 2^30"));
  }
  return absl::OkStatus();
}

absl::Status CheckFields(const Resize& resize, int axes) {
  if (resize.sizes.has_value() == !resize.scales.empty())
    return absl::InvalidArgumentError("takes either sizes or scales");
  if (!std::isfinite(resize.cubic_coefficient))
    return absl::InvalidArgumentError("cubic_coefficient must be finite");
  if (resize.sizes.has_value()) return CheckSuits("sizes", *resize.sizes, axes);
  return CheckScales(resize, axes);
}

absl::StatusOr<Extents> OutputOf(const Resize& resize, const Shape& x) {
  const int axes = x.spatial_axes();
  RETURN_IF_ERROR(CheckFields(resize, axes));
  std::vector<int64_t> out;
  for (int i = 0; i < axes; ++i) {
    const int64_t in = x[2 + i];
    out.push_back(resize.sizes.has_value() ? (*resize.sizes)[i]
                                           : ScaledExtent(in, *resize.ScaleOf(i)));
  }
  RETURN_IF_ERROR(CheckResampled(SizeText(resize), x, Extents::Of(out)));
  return Extents::Of(out);
}

// The inputs of which an output is the sum.
double InputsPerOutput(const Resize& resize, const Shape& x, const Extents& out) {
  double inputs = 1;
  for (int i = 0; i < x.spatial_axes(); ++i) {
    if (resize.mode == Resize::Mode::kNearest || x[2 + i] == out[i]) continue;
    inputs *= resize.mode == Resize::Mode::kCubic ? 4 : 2;
  }
  return inputs;
}

}  // namespace

std::string_view Name(Resize::Mode mode) { return NameIn(kModes, mode); }
std::string_view Name(Resize::Coordinates coordinates) { return NameIn(kCoordinates, coordinates); }
std::string_view Name(Resize::Rounding rounding) { return NameIn(kRoundings, rounding); }

absl::StatusOr<Resize::Mode> ParseResizeMode(std::string_view text) {
  return ParseIn<Resize::Mode>(kModes, "mode", text);
}
absl::StatusOr<Resize::Coordinates> ParseResizeCoordinates(std::string_view text) {
  return ParseIn<Resize::Coordinates>(kCoordinates, "coordinates", text);
}
absl::StatusOr<Resize::Rounding> ParseResizeRounding(std::string_view text) {
  return ParseIn<Resize::Rounding>(kRoundings, "rounding", text);
}

std::string Resize::Parameters() const {
  std::string text =
      absl::StrCat(SizeText(*this), " ",
                   ParameterText({{"mode", Name(mode)}, {"coordinates", Name(coordinates)}}));
  const Resize usual;
  if (mode == Mode::kNearest || rounding != usual.rounding)
    absl::StrAppend(&text, " ", ParameterText({{"rounding", Name(rounding)}}));
  if (mode == Mode::kCubic || cubic_coefficient != usual.cubic_coefficient)
    absl::StrAppend(&text, " ", ParameterText({{"cubic_coefficient", cubic_coefficient}}));
  return text;
}

absl::StatusOr<LayerSpec> Resize::Specify(const LayerContext& context) const {
  RETURN_IF_ERROR(CheckSpatialInputs(context, 1));
  const TensorSpec& x = context.inputs[0];
  ASSIGN_OR_RETURN(const Extents out, OutputOf(*this, x.shape));
  TensorSpec y = WithShape(x, SpatialShape(x.shape.n(), x.shape.c(), out.values()));
  const double flops = 2 * static_cast<double>(y.elements()) * InputsPerOutput(*this, x.shape, out);
  return CopySteps(std::move(y), context.mode, mode == Mode::kNearest ? 0 : flops);
}

}  // namespace neap

// Operators that give images other extents: Resize, Upsample, DepthToSpace and SpaceToDepth.
#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/resize/pixel_shuffle.h"
#include "neap/layers/resize/resample_axes.h"
#include "neap/layers/resize/resize.h"
#include "neap/nets/onnx/node_axes.h"
#include "neap/nets/onnx/operators.h"
#include "neap/nets/onnx/scaled_extents.h"

namespace neap::nets::operators {
namespace {

// Whether the operator has scales as its second input, and no attribute for positions.
bool IsOld(const NodeReader& node, const NetworkBuilder& network) {
  constexpr int64_t kOpsetOfCoordinates = 11;
  return node.op() == "Upsample" || network.opset() < kOpsetOfCoordinates;
}

absl::Status Refused(const std::string& attribute, const std::string& value,
                     const std::string& why = "") {
  return absl::UnimplementedError(absl::StrCat("attribute '", attribute, "' is ", value, why));
}

// The values of an input for some axes, as one for each axis of x. `same` are those of axes that
// the node does not change.
absl::StatusOr<std::vector<double>> ForEachAxis(NodeReader& node, int input,
                                                std::vector<double> same) {
  ASSIGN_OR_RETURN(const Constant values, node.Constant(input));
  const int64_t rank = std::ssize(same);
  std::vector<int64_t> axes(same.size());
  std::iota(axes.begin(), axes.end(), 0);
  axes = node.Ints("axes", axes);
  if (values.values.size() != axes.size()) {
    return absl::InvalidArgumentError(absl::StrCat("it has ", values.values.size(),
                                                   " scales or sizes for ", axes.size(), " axes"));
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    ASSIGN_OR_RETURN(const size_t axis, CheckedAxis(axes[i], rank));
    same[axis] = values.values[i];
  }
  return same;
}

bool HasValues(const NodeReader& node, int input) {
  if (!node.HasInput(input)) return false;
  const absl::StatusOr<Constant> values = node.Constant(input);
  return !values.ok() || !values->values.empty();  // an error is that of who reads it
}

absl::Status OtherAxes() {
  return absl::UnimplementedError("it resizes other axes than the spatial ones");
}

absl::Status CheckScale(double scale) {
  if (IsScale(scale)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("scale ", scale, " is not between 2^-30 and 2^30"));
}

// Gives a layer with scales the sizes that ONNX makes of them, if those are others.
absl::Status SetOnnxExtents(const neap::Shape& x, neap::Resize& resize) {
  const std::vector<int64_t> extents = OnnxExtents(resize, x);
  if (extents == NeapExtents(resize, x)) return absl::OkStatus();
  if (RoundsAny(resize, x)) {
    return absl::UnimplementedError(
        "products of extents and scales are others in fp32 than in fp64, and not all are whole");
  }
  resize.sizes = Extents::Of(extents);
  resize.scales.clear();
  return absl::OkStatus();
}

// Scales, where they are not given by sizes.
absl::Status ReadScales(NodeReader& node, int input, const neap::Shape& x, neap::Resize& resize) {
  const auto rank = static_cast<size_t>(x.rank());
  ASSIGN_OR_RETURN(const std::vector<double> scales,
                   ForEachAxis(node, input, std::vector<double>(rank, 1)));
  if (scales[0] != 1 || scales[1] != 1) return OtherAxes();
  for (size_t i = 2; i < rank; ++i) {
    RETURN_IF_ERROR(CheckScale(scales[i]));
    const Fraction scale = FractionOf(static_cast<float>(scales[i]));
    resize.scales.push_back(static_cast<double>(scale.over) / static_cast<double>(scale.under));
  }
  // The default of neap's layers, as which a file of neap's own is read.
  if (std::adjacent_find(resize.scales.begin(), resize.scales.end(), std::not_equal_to<>()) ==
      resize.scales.end())
    resize.scales.resize(1);
  return SetOnnxExtents(x, resize);
}

absl::Status ReadSizes(NodeReader& node, const NetworkBuilder& network, const neap::Shape& x,
                       neap::Resize& resize) {
  constexpr int kSizes = 3;
  const std::string policy = node.String("keep_aspect_ratio_policy", "stretch");
  if (policy != "stretch") return Refused("keep_aspect_ratio_policy", policy);
  ASSIGN_OR_RETURN(const std::vector<double> sizes,
                   ForEachAxis(node, kSizes, {x.dims().begin(), x.dims().end()}));
  const int64_t n = ToInteger(sizes[0]);
  const bool keeps_batch = n == x.n() || (n > 0 && n == network.file_batch());
  if (!keeps_batch || ToInteger(sizes[1]) != x.c()) return OtherAxes();
  std::vector<int64_t> spatial;
  for (size_t i = 2; i < sizes.size(); ++i) spatial.push_back(ToInteger(sizes[i]));
  resize.sizes = Extents::Of(spatial);
  return absl::OkStatus();
}

absl::Status ReadExtents(NodeReader& node, const NetworkBuilder& network, const neap::Shape& x,
                         neap::Resize& resize) {
  if (IsOld(node, network)) return ReadScales(node, 1, x, resize);
  if (HasValues(node, 3)) return ReadSizes(node, network, x, resize);
  return ReadScales(node, 2, x, resize);
}

// An axis before and after.
struct ResizedExtent {
  int64_t before, after;
  bool is_rounded;  // because `before` times the scale is no whole number
};
absl::StatusOr<std::vector<ResizedExtent>> ExtentsAlong(const neap::Resize& resize,
                                                        const TensorSpec& x) {
  ASSIGN_OR_RETURN(const LayerSpec spec, resize.Specify({.inputs = {x}}));
  std::vector<ResizedExtent> extents;
  for (int i = 0; i < x.shape.spatial_axes(); ++i) {
    extents.push_back({x.shape[2 + i], spec.output.shape[2 + i], IsRounded(resize, x.shape, i)});
  }
  return extents;
}

absl::Status ReadMode(NodeReader& node, neap::Resize& resize) {
  const std::string mode = node.String("mode", "nearest");
  const absl::StatusOr<neap::Resize::Mode> known = ParseResizeMode(mode);
  if (!known.ok()) return Refused("mode", mode);
  resize.mode = *known;
  resize.cubic_coefficient = node.Float("cubic_coeff_a", resize.cubic_coefficient);
  node.Float("extrapolation_value", 0);  // of tf_crop_and_resize alone
  const bool is_cubic = resize.mode == neap::Resize::Mode::kCubic;
  if (node.Int("exclude_outside", 0) != 0 && is_cubic) return Refused("exclude_outside", "1");
  return absl::OkStatus();
}

// Some of ONNX's coordinates are those of neap, unless extents are 1, or are rounded: libraries do
// not agree on corners that are aligned then.
absl::Status ReadCoordinates(NodeReader& node, const std::vector<ResizedExtent>& extents,
                             neap::Resize& resize) {
  const std::string name = "coordinate_transformation_mode";
  std::string coordinates = node.String(name, "half_pixel");
  const auto is_one = [](const ResizedExtent& axis) { return axis.after == 1 && axis.before > 1; };
  const auto is_rounded = [](const ResizedExtent& axis) { return axis.is_rounded; };
  const bool rounds = std::any_of(extents.begin(), extents.end(), is_rounded);
  if (coordinates == "pytorch_half_pixel") {
    if (std::any_of(extents.begin(), extents.end(), is_one))
      return Refused(name, coordinates, ", and an axis has one element left");
    coordinates = "half_pixel";
  } else if (coordinates == "half_pixel_symmetric" || coordinates == "align_corners") {
    if (rounds) return Refused(name, coordinates, ", and the size of an axis is rounded");
    if (coordinates == "half_pixel_symmetric") coordinates = "half_pixel";
  }
  const absl::StatusOr<neap::Resize::Coordinates> known = ParseResizeCoordinates(coordinates);
  if (!known.ok()) return Refused(name, coordinates);
  resize.coordinates = *known;
  return absl::OkStatus();
}

absl::Status ReadRounding(NodeReader& node, neap::Resize& resize) {
  using Rounding = neap::Resize::Rounding;
  constexpr std::pair<std::string_view, Rounding> kRoundings[] = {
      {"floor", Rounding::kFloor},
      {"ceil", Rounding::kCeil},
      {"round_prefer_floor", Rounding::kPreferFloor},
      {"round_prefer_ceil", Rounding::kPreferCeil}};
  const std::string mode = node.String("nearest_mode", "round_prefer_floor");
  for (const auto& [name, rounding] : kRoundings) {
    if (name != mode) continue;
    if (resize.mode == neap::Resize::Mode::kNearest) resize.rounding = rounding;
    return absl::OkStatus();
  }
  return Refused("nearest_mode", mode);
}

// Before opset 11, positions are as in ONNX Runtime: smaller images take the next element.
absl::Status SetOldPositions(const std::vector<ResizedExtent>& extents, neap::Resize& resize) {
  const auto grows = [](const ResizedExtent& axis) { return axis.after > axis.before; };
  const auto shrinks = [](const ResizedExtent& axis) { return axis.after < axis.before; };
  resize.coordinates = neap::Resize::Coordinates::kAsymmetric;
  if (resize.mode != neap::Resize::Mode::kNearest) return absl::OkStatus();
  const bool some_shrink = std::any_of(extents.begin(), extents.end(), shrinks);
  resize.rounding = some_shrink ? neap::Resize::Rounding::kCeil : neap::Resize::Rounding::kFloor;
  if (!some_shrink || std::none_of(extents.begin(), extents.end(), grows)) return absl::OkStatus();
  return absl::UnimplementedError("it makes one axis larger and another one smaller");
}

absl::Status CheckSharp(NodeReader& node, const std::vector<ResizedExtent>& extents) {
  const auto shrinks = [](const ResizedExtent& axis) { return axis.after < axis.before; };
  const bool smooths = node.Int("antialias", 0) != 0;
  if (!smooths || std::none_of(extents.begin(), extents.end(), shrinks)) return absl::OkStatus();
  return Refused("antialias", "1, and an axis becomes smaller");
}

bool ChangesNothing(const neap::Resize& resize, const std::vector<ResizedExtent>& extents) {
  const auto is_one = [](double scale) { return scale == 1; };
  const auto is_same = [](const ResizedExtent& axis) { return axis.before == axis.after; };
  if (resize.scales.empty()) return std::all_of(extents.begin(), extents.end(), is_same);
  return std::all_of(resize.scales.begin(), resize.scales.end(), is_one);
}

// A block of one pixel changes nothing. SpaceToDepth has a mode in later opsets.
template <typename Shuffle>
absl::Status AddShuffle(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(const ImageValue x, node.Image(0));
  RETURN_IF_ERROR(CheckIsImage(x));
  if (x.spec.shape.spatial_axes() != 2)
    return absl::InvalidArgumentError("its input does not have two spatial axes");
  const std::string mode = node.String("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") return Refused("mode", mode);
  const Shuffle shuffle = {.factor = node.Int("blocksize", 0), .blocks_first = mode == "DCR"};
  RETURN_IF_ERROR(node.Attributes());
  if (shuffle.factor != 1 || network.written_by_neap())
    return network.AddLayer(node.proto(), shuffle, {x});
  network.Set(node.proto().output(0), x);
  return absl::OkStatus();
}

}  // namespace

absl::Status Resize(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(const ImageValue x, node.Image(0));
  RETURN_IF_ERROR(CheckIsImage(x));
  neap::Resize resize;
  RETURN_IF_ERROR(ReadExtents(node, network, x.spec.shape, resize));
  RETURN_IF_ERROR(ReadMode(node, resize));
  ASSIGN_OR_RETURN(const std::vector<ResizedExtent> extents, ExtentsAlong(resize, x.spec));
  if (IsOld(node, network)) {
    RETURN_IF_ERROR(SetOldPositions(extents, resize));
  } else {
    RETURN_IF_ERROR(ReadCoordinates(node, extents, resize));
    RETURN_IF_ERROR(ReadRounding(node, resize));
    RETURN_IF_ERROR(CheckSharp(node, extents));
  }
  RETURN_IF_ERROR(node.Attributes());
  if (ChangesNothing(resize, extents) && !network.written_by_neap()) {
    network.Set(node.proto().output(0), x);
    return absl::OkStatus();
  }
  return network.AddLayer(node.proto(), resize, {x});
}

absl::Status DepthToSpace(NodeReader& node, NetworkBuilder& network) {
  return AddShuffle<PixelShuffle>(node, network);
}
absl::Status SpaceToDepth(NodeReader& node, NetworkBuilder& network) {
  return AddShuffle<PixelUnshuffle>(node, network);
}

}  // namespace neap::nets::operators

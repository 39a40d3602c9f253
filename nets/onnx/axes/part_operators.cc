// Operators that take some elements of images: a range along an axis, or several.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/channel_slice.h"
#include "neap/layers/channel_split.h"
#include "neap/layers/crop.h"
#include "neap/nets/onnx/axes/rearrange.h"
#include "neap/nets/onnx/node_axes.h"
#include "neap/nets/onnx/operators.h"

namespace neap::nets::operators {
namespace {

// Entries [first, last) along an axis of the tensor, or each `step`-th of them.
struct Range {
  size_t axis;
  int64_t first, last;
  int64_t step = 1;
};

// Whether the axis is the outermost part of the layer's axis, so that its entries lie behind each
// other there.
bool IsOutermost(const Arrangement& arrangement, size_t axis) {
  const Factors& factors = arrangement.axes()[axis];
  if (factors.size() != 1 || factors[0].axis == 0) return false;
  return factors[0].stride * factors[0].extent ==
         arrangement.layer()[static_cast<size_t>(factors[0].axis)];
}

// x with the axis as the outermost part of an axis of the layer.
absl::StatusOr<ImageValue> WithRangesAlong(const NodeReader& node, NetworkBuilder& network,
                                           const ImageValue& x, size_t axis) {
  if (IsOutermost(x.arrangement, axis)) return x;
  if (x.arrangement.HasImages(axis)) return absl::UnimplementedError("it takes some of the images");
  return WithAxes(node.proto(), network, x, Isolated(x.arrangement, axis));
}

// The layer of a range of x, along an axis of which IsOutermost() holds.
Layer PartOf(const ImageValue& x, const Range& range) {
  const Factor& factor = x.arrangement.axes()[range.axis][0];
  const int64_t first = range.first * factor.stride;
  const int64_t count = (range.last - range.first) * factor.stride;
  if (factor.axis == 1) return ChannelSlice{.first = first, .count = count};
  const absl::Span<const int64_t> spatial = x.spec.shape.spatial();
  std::vector<int64_t> size(spatial.begin(), spatial.end());
  std::vector<int64_t> offset(size.size(), 0);
  size[static_cast<size_t>(factor.axis) - 2] = count;
  offset[static_cast<size_t>(factor.axis) - 2] = first;
  return Crop{.size = Extents::Of(size), .offset = Extents::Of(offset)};
}

// How such a range lies in the graph.
Arrangement ArrangementOfPart(const ImageValue& x, const Range& range) {
  std::vector<Factors> axes = x.arrangement.axes();
  Factor& factor = axes[range.axis][0];
  std::vector<int64_t> layer = x.arrangement.layer();
  factor.extent = range.last - range.first;
  layer[static_cast<size_t>(factor.axis)] = factor.extent * factor.stride;
  return {std::move(layer), std::move(axes)};
}

// x becomes the range, by layers with the node's name and this suffix.
absl::Status TakeRange(const NodeReader& node, NetworkBuilder& network, const Range& range,
                       const std::string& suffix, ImageValue& x) {
  const int64_t extent = x.dims()[range.axis];
  if (range.first == 0 && range.last == extent) return absl::OkStatus();
  if (range.last <= range.first) return absl::UnimplementedError("it takes nothing");
  ASSIGN_OR_RETURN(x, WithRangesAlong(node, network, x, range.axis));
  const Layer part = PartOf(x, range);
  Arrangement arrangement = ArrangementOfPart(x, range);
  ASSIGN_OR_RETURN(x, network.AddExtra(node.proto(), {}, suffix, part, {Plain(x)}));
  x.arrangement = std::move(arrangement);
  return absl::OkStatus();
}

// The same for a range with a step, which divides the extent, from one end to the other: an entry
// of an axis of as many entries as the step.
absl::Status TakeEvery(const NodeReader& node, NetworkBuilder& network, const Range& range,
                       ImageValue& x) {
  std::vector<int64_t> dims = x.dims();
  const int64_t extent = dims[range.axis], step = range.step;
  std::optional<Arrangement> divided;
  if (step > 1 && extent % step == 0 && range.first < step &&
      range.last > extent - step + range.first) {
    dims[range.axis] = extent / step;
    dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(range.axis) + 1, step);
    divided = x.arrangement.Reshaped(dims);
  }
  if (!divided.has_value())
    return absl::UnimplementedError(absl::StrCat("it has a step of ", step));
  x.arrangement = *std::move(divided);
  RETURN_IF_ERROR(TakeRange(node, network, {range.axis + 1, range.first, range.first + 1}, "", x));
  x.arrangement = x.arrangement.Removed(range.axis + 1);
  return absl::OkStatus();
}

absl::StatusOr<ImageValue> AnyParts(const NodeReader& node) {
  ASSIGN_OR_RETURN(ImageValue x, node.ImageOfAnyLayout(0));
  if (!x.is_flat() || x.spec.shape.positions() == 1) return x;
  return absl::UnimplementedError("it takes a part of an image that is made flat");
}

// A Slice that neap wrote of its Crop, which may be of the whole image.
absl::Status AddWrittenCrop(NodeReader& node, NetworkBuilder& network, const ImageValue& x,
                            const std::vector<Range>& ranges) {
  const absl::Span<const int64_t> spatial = x.spec.shape.spatial();
  std::vector<int64_t> size(spatial.begin(), spatial.end());
  std::vector<int64_t> offset(size.size(), 0);
  for (const Range& range : ranges) {
    size[range.axis - 2] = range.last - range.first;
    offset[range.axis - 2] = range.first;
  }
  return network.AddLayer(node.proto(),
                          Crop{.size = Extents::Of(size), .offset = Extents::Of(offset)}, {x});
}

// Ranges along spatial axes of images alone are one Crop.
bool AreSpatial(const ImageValue& x, const std::vector<Range>& ranges) {
  return x.is_image() && std::all_of(ranges.begin(), ranges.end(), [](const Range& range) {
           return range.axis >= 2 && range.step == 1;
         });
}

// Adds one layer with all parts of the axis as its outputs.
absl::Status AddSplit(NodeReader& node, NetworkBuilder& network, const ImageValue& given,
                      size_t axis, const std::vector<int64_t>& parts) {
  ASSIGN_OR_RETURN(const ImageValue x, WithRangesAlong(node, network, given, axis));
  const Factor& factor = x.arrangement.axes()[axis][0];
  ChannelSplit split;
  for (const int64_t part : parts) split.channels.push_back(part * factor.stride);
  RETURN_IF_ERROR(network.AddLayer(node.proto(), split, {x}, {}, Form::kImage));
  const ImageValue first = std::get<ImageValue>(*network.Find(node.proto().output(0)));
  for (int i = 0; i < std::ssize(parts); ++i) {
    ImageValue part = network.FurtherOutput(first, i);
    part.arrangement =
        ArrangementOfPart(x, {.axis = axis, .first = 0, .last = parts[static_cast<size_t>(i)]});
    network.Set(node.proto().output(i), std::move(part));
  }
  return absl::OkStatus();
}

// Whether the parts of the axis are channels of the layer, or can be made so without a move.
bool SplitsChannels(const ImageValue& x, size_t axis) {
  return IsOutermost(x.arrangement, axis) && x.arrangement.axes()[axis][0].axis == 1;
}

}  // namespace

absl::Status Slice(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(ImageValue x, AnyParts(node));
  ASSIGN_OR_RETURN(const Slices slices, ReadSlices(node, std::ssize(x.dims())));
  std::vector<Range> ranges;
  for (size_t i = 0; i < slices.axes.size(); ++i) {
    const auto axis = static_cast<size_t>(slices.axes[i]);
    const auto [first, last] = ClampedRange(slices.starts[i], slices.ends[i], x.dims()[axis]);
    ranges.push_back({axis, first, last, slices.steps[i]});
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return a.axis < b.axis; });
  const auto is_whole = [&](const Range& range) {
    return range.first == 0 && range.last == x.dims()[range.axis] && range.step == 1;
  };
  const bool is_crop = AreSpatial(x, ranges);
  const bool changes = !std::all_of(ranges.begin(), ranges.end(), is_whole);
  if (is_crop && (changes || network.written_by_neap()))
    return AddWrittenCrop(node, network, x, ranges);
  for (const Range& range : ranges) {
    RETURN_IF_ERROR(range.step == 1 ? TakeRange(node, network, range, "", x)
                                    : TakeEvery(node, network, range, x));
  }
  network.Set(node.proto().output(0), std::move(x));
  return absl::OkStatus();
}

absl::Status Split(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(const ImageValue x, AnyParts(node));
  const std::vector<int64_t> dims = x.dims();
  ASSIGN_OR_RETURN(const size_t axis, CheckedAxis(node.Int("axis", 0), std::ssize(dims)));
  ASSIGN_OR_RETURN(const std::vector<int64_t> extents, ReadParts(node, dims[axis]));
  const auto is_read = [&](const std::string& output) { return network.ReaderCount(output) > 0; };
  const auto& outputs = node.proto().output();
  const bool has_several = std::count_if(outputs.begin(), outputs.end(), is_read) > 1;
  if (has_several && SplitsChannels(x, axis)) return AddSplit(node, network, x, axis, extents);
  int64_t first = 0;
  for (size_t i = 0; i < extents.size(); ++i) {
    const Range range = {axis, first, first + extents[i]};
    first = range.last;
    const std::string& output = outputs[static_cast<int>(i)];
    if (!is_read(output)) continue;
    ImageValue taken = x;
    RETURN_IF_ERROR(TakeRange(node, network, range, absl::StrCat("_", i), taken));
    network.Set(output, std::move(taken));
  }
  return absl::OkStatus();
}

absl::Status GatherOne(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(ImageValue x, AnyParts(node));
  ASSIGN_OR_RETURN(const size_t axis, CheckedAxis(node.Int("axis", 0), std::ssize(x.dims())));
  ASSIGN_OR_RETURN(const Constant indices, node.Constant(1));
  const std::vector<int64_t> positions = ToIntegers(indices);
  const int64_t extent = x.dims()[axis];
  if (positions.size() != 1) {
    return absl::UnimplementedError(
        absl::StrCat("it takes ", positions.size(), " entries of a layer's output; one is read"));
  }
  const int64_t at = positions[0] < 0 ? positions[0] + extent : positions[0];
  if (at < 0 || at >= extent) {
    return absl::InvalidArgumentError(
        absl::StrCat("it takes entry ", positions[0], " of ", extent));
  }
  if (x.arrangement.HasImages(axis)) return absl::UnimplementedError("it takes some of the images");
  RETURN_IF_ERROR(TakeRange(node, network, {axis, at, at + 1}, "", x));
  // The axes of the indices, each of 1, are in the place of the axis.
  if (indices.dims.empty()) x.arrangement = x.arrangement.Removed(axis);
  for (size_t i = 1; i < indices.dims.size(); ++i) x.arrangement = x.arrangement.Inserted(axis);
  network.Set(node.proto().output(0), std::move(x));
  return absl::OkStatus();
}

}  // namespace neap::nets::operators

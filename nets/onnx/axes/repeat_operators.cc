// Operators that repeat images along their axes: Tile, and Expand, of axes of 1.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/shape/tile.h"
#include "neap/nets/onnx/axes/rearrange.h"
#include "neap/nets/onnx/constants/constant_arrays.h"
#include "neap/nets/onnx/operators.h"

namespace neap::nets::operators {
namespace {

// The axis of the layer that the axis of the tensor is, all of it and nothing else. Any axis of 1
// of the layer can be one of 1 of the tensor. Absent if there is none.
std::optional<int> LayerAxisOf(const Arrangement& arrangement, size_t axis) {
  const int rank = static_cast<int>(arrangement.layer().size()), same = static_cast<int>(axis);
  if (same > 0 && same < rank && arrangement.IsWhole(axis, same)) return same;
  for (int of_layer = 1; of_layer < rank; ++of_layer) {
    if (arrangement.IsWhole(axis, of_layer)) return of_layer;
  }
  return std::nullopt;
}

// x with an axis of the layer for this one.
absl::StatusOr<ImageValue> WithAxis(const NodeReader& node, NetworkBuilder& network,
                                    const ImageValue& x, size_t axis) {
  if (!x.arrangement.axes()[axis].empty()) return WithChannels(node.proto(), network, x, axis);
  const std::vector<Factors> layer = Arrangement::OfLayer(x.arrangement.layer()).axes();
  std::vector<Factors> wanted = {layer[1], {}, {}};  // an axis of 1 behind the channels
  for (size_t i = 2; i < layer.size(); ++i)
    wanted[2].insert(wanted[2].end(), layer[i].begin(), layer[i].end());
  return WithAxes(node.proto(), network, x, wanted);
}

// Adds a layer that repeats x, along each axis of the layer that computes it. The result lies so in
// the graph.
absl::StatusOr<ImageValue> Repeated(const NodeReader& node, NetworkBuilder& network,
                                    const ImageValue& x, const std::vector<int64_t>& counts,
                                    Arrangement arrangement) {
  const neap::Tile tile = {.repeats = Extents::Of(absl::MakeConstSpan(counts).subspan(2)),
                           .channels = counts[1]};
  ASSIGN_OR_RETURN(ImageValue repeated, network.AddExtra(node.proto(), {}, "", tile, {Plain(x)}));
  repeated.arrangement = std::move(arrangement);
  return repeated;
}

// One layer repeats all axes that are axes of the layer before it, and one each of the others.
absl::Status Repeat(NodeReader& node, NetworkBuilder& network, ImageValue x,
                    const std::vector<int64_t>& counts) {
  std::vector<size_t> others;
  std::vector<int64_t> of_layer(x.arrangement.layer().size(), 1);
  Arrangement arrangement = x.arrangement;
  for (size_t axis = 0; axis < counts.size(); ++axis) {
    if (counts[axis] == 1) continue;
    if (counts[axis] < 1) {
      return absl::UnimplementedError(absl::StrCat("it repeats an axis ", counts[axis], " times"));
    }
    if (arrangement.HasImages(axis)) return absl::UnimplementedError("it repeats images");
    const std::optional<int> along = LayerAxisOf(arrangement, axis);
    if (along.has_value()) {
      of_layer[static_cast<size_t>(*along)] = counts[axis];
      const int64_t extent = SaturatingProduct(arrangement.dims()[axis], counts[axis]);
      arrangement = arrangement.WithExtent(axis, *along, extent);
    } else {
      others.push_back(axis);
    }
  }
  if (arrangement != x.arrangement || (others.empty() && network.written_by_neap())) {
    ASSIGN_OR_RETURN(x, Repeated(node, network, x, of_layer, arrangement));
  }
  for (const size_t axis : others) {
    ASSIGN_OR_RETURN(x, WithAxis(node, network, x, axis));
    const int along = LayerAxisOf(x.arrangement, axis).value();
    of_layer.assign(x.arrangement.layer().size(), 1);
    of_layer[static_cast<size_t>(along)] = counts[axis];
    const int64_t extent = SaturatingProduct(x.dims()[axis], counts[axis]);
    arrangement = x.arrangement.WithExtent(axis, along, extent);
    ASSIGN_OR_RETURN(x, Repeated(node, network, x, of_layer, arrangement));
  }
  network.Set(node.proto().output(0), std::move(x));
  return absl::OkStatus();
}

}  // namespace

absl::Status Tile(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(ImageValue x, node.ImageOfAnyLayout(0));
  ASSIGN_OR_RETURN(const Constant repeats, node.Constant(1));
  const std::vector<int64_t> counts = ToIntegers(repeats);
  if (counts.size() != x.rank())
    return absl::InvalidArgumentError("it does not say how often each axis is repeated");
  return Repeat(node, network, std::move(x), counts);
}

absl::Status Expand(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(ImageValue x, node.ImageOfAnyLayout(0));
  ASSIGN_OR_RETURN(const Constant shape, node.Constant(1));
  const std::vector<int64_t> from = x.dims();
  const std::optional<Dims> to = BroadcastDims(from, ToIntegers(shape));
  if (!to.has_value()) return absl::InvalidArgumentError("its shape does not fit its input");
  if (to->size() != from.size())
    return absl::UnimplementedError("its shape has more axes than its input");
  std::vector<int64_t> counts;
  for (size_t axis = 0; axis < from.size(); ++axis)
    counts.push_back((*to)[axis] / from[axis]);  // one of them is 1
  return Repeat(node, network, std::move(x), counts);
}

}  // namespace neap::nets::operators

// Operators that give the elements of images other axes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/pooling.h"
#include "neap/layers/shape/permute.h"
#include "neap/layers/shape/reshape.h"
#include "neap/nets/onnx/axes/rearrange.h"
#include "neap/nets/onnx/node_axes.h"
#include "neap/nets/onnx/norms/norm_operators.h"
#include "neap/nets/onnx/operators.h"

namespace neap::nets::operators {
namespace {

// A value whose axes the node changes, in any order of them.
absl::StatusOr<ImageValue> AnyImage(NodeReader& node) {
  ASSIGN_OR_RETURN(ImageValue x, node.FormulaImage(0));
  if (x.formula.has_value()) return node.ImageOfAnyLayout(0);  // layers compute it
  return x;
}

// The layer that gives x these extents.
absl::Status AddReshape(NodeReader& node, NetworkBuilder& network, ImageValue x,
                        const std::vector<int64_t>& dims) {
  const bool fits = dims.size() >= 2 && std::ssize(dims) <= 2 + kMaxSpatialAxes &&
                    dims[0] == network.graph_batch();
  if (!fits) {
    return absl::UnimplementedError(absl::StrCat("it makes ", absl::StrJoin(dims, "x"), " of ",
                                                 absl::StrJoin(x.dims(), "x"),
                                                 "; only one vector can be made of each image, or "
                                                 "another image"));
  }
  ASSIGN_OR_RETURN(x, InOrder(node.proto(), network, x));
  if (dims.size() == 2) {
    x.arrangement = Arrangement::Flat(x.arrangement.layer());
    network.Set(node.proto().output(0), std::move(x));
    return absl::OkStatus();
  }
  return network.AddLayer(node.proto(), Reshape{{dims.begin() + 1, dims.end()}}, {std::move(x)}, {},
                          Form::kImage);
}

// The output is the same elements with these extents, or a layer gives them these.
absl::Status SetDims(NodeReader& node, NetworkBuilder& network, ImageValue x,
                     const std::vector<int64_t>& dims) {
  // A vector of each image has the order of the axes before it.
  const bool is_vector = dims.size() == 2 && dims[0] == network.graph_batch();
  if (is_vector && x.arrangement.axes()[0].size() == 1 && x.rank() > 2) {
    ASSIGN_OR_RETURN(x, InOrder(node.proto(), network, x));
  }
  std::optional<Arrangement> reshaped = x.arrangement.Reshaped(dims);
  if (!reshaped.has_value()) return AddReshape(node, network, std::move(x), dims);
  x.arrangement = *std::move(reshaped);
  // What neap writes of one layer ends so.
  if (network.written_by_neap() && absl::EndsWith(node.proto().name(), ".images")) {
    ASSIGN_OR_RETURN(x, AsImage(node.proto(), network, x));
  }
  network.Set(node.proto().output(0), std::move(x));
  return absl::OkStatus();
}

// The output has other axes of 1.
absl::Status SetAxesOfOne(NodeReader& node, NetworkBuilder& network, ImageValue x) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> dims, AxesAfter(node, x.dims()));
  ASSIGN_OR_RETURN(const std::vector<int64_t> given, node.IntsOrInput("axes", 1));
  const bool removes = node.op() == "Squeeze";
  for (size_t i = 0; removes && given.empty() && i < x.rank(); ++i) {
    if (network.file_batch() != 1 || !x.arrangement.IsImages(i)) continue;
    return absl::UnimplementedError("it removes all axes of 1, of which the images' is one");
  }
  if (dims.empty()) return absl::UnimplementedError("it leaves no axis");
  ASSIGN_OR_RETURN(std::vector<int64_t> axes,
                   CheckedAxes(given, static_cast<int64_t>(removes ? x.rank() : dims.size())));
  for (size_t i = 0; removes && given.empty() && i < x.rank(); ++i) {
    if (x.arrangement.axes()[i].empty()) axes.push_back(static_cast<int64_t>(i));
  }
  if (removes) std::reverse(axes.begin(), axes.end());
  for (const int64_t axis : axes) {
    const auto at = static_cast<size_t>(axis);
    x.arrangement = removes ? x.arrangement.Removed(at) : x.arrangement.Inserted(at);
  }
  network.Set(node.proto().output(0), std::move(x));
  return absl::OkStatus();
}

// Whether the node is a layer that neap wrote: its other reshapes keep the images by 0.
absl::StatusOr<bool> IsWrittenReshape(NodeReader& node, const NetworkBuilder& network) {
  if (!network.written_by_neap() || node.op() != "Reshape") return false;
  ASSIGN_OR_RETURN(const Constant target, node.Constant(1));
  return !target.values.empty() && target.values[0] == -1;
}

// Whether the Transpose is a layer that neap wrote. The others of what it writes are called so, or
// are parts of a layer whose name their output has.
bool IsWrittenPermute(const NodeReader& node, const NetworkBuilder& network, const ImageValue& x) {
  return network.written_by_neap() && x.is_image() &&
         node.proto().name() == node.proto().output(0) &&
         !absl::EndsWith(node.proto().name(), ".channels_last");
}

absl::Status AddPermute(NodeReader& node, NetworkBuilder& network, const ImageValue& x,
                        const std::vector<int64_t>& order) {
  if (order[0] != 0) return absl::UnimplementedError("it moves the axis of the images");
  const Permute layer = {.axes = {order.begin() + 1, order.end()}};
  return network.AddLayer(node.proto(), layer, {x}, {}, Form::kImage);
}

// Whether the reduction to a mean is of all spatial axes of the layer, and of nothing else.
bool ReducesPositions(const ImageValue& x, const std::vector<int64_t>& axes) {
  int64_t reduced = 1;
  for (const int64_t axis : axes) {
    for (const Factor& factor : x.arrangement.axes()[static_cast<size_t>(axis)]) {
      if (factor.axis < 2) return false;
      reduced *= factor.extent;
    }
  }
  return reduced == x.spec.shape.positions();
}

// Adds the mean of all positions, whose axes are left as 1, or left out.
absl::Status AddMean(NodeReader& node, NetworkBuilder& network, const ImageValue& x,
                     const std::vector<int64_t>& axes, bool keeps) {
  RETURN_IF_ERROR(network.AddLayer(node.proto(), neap::GlobalAveragePool{}, {x}, {}, Form::kImage));
  const ImageValue mean = std::get<ImageValue>(*network.Find(node.proto().output(0)));
  std::vector<Factors> left = x.arrangement.axes();
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    left[static_cast<size_t>(*axis)].clear();
    if (!keeps) left.erase(left.begin() + *axis);
  }
  network.SetArrangement(node.proto(), {mean.arrangement.layer(), std::move(left)});
  return absl::OkStatus();
}

}  // namespace

absl::Status ChangeAxes(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(ImageValue x, AnyImage(node));
  ASSIGN_OR_RETURN(const bool is_layer, IsWrittenReshape(node, network));
  if (node.op() == "Squeeze" || node.op() == "Unsqueeze")
    return SetAxesOfOne(node, network, std::move(x));
  ASSIGN_OR_RETURN(const std::vector<int64_t> dims, AxesAfter(node, x.dims()));
  if (is_layer) return AddReshape(node, network, std::move(x), dims);
  return SetDims(node, network, std::move(x), dims);
}

absl::Status Transpose(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(ImageValue x, AnyImage(node));
  ASSIGN_OR_RETURN(const std::vector<int64_t> order, ReadOrder(node, std::ssize(x.dims())));
  if (IsWrittenPermute(node, network, x)) return AddPermute(node, network, x, order);
  x.arrangement = x.arrangement.Transposed(order);
  x.transpose = &node.proto();
  network.Set(node.proto().output(0), std::move(x));
  return absl::OkStatus();
}

absl::Status ReduceMean(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(const bool is_of_squares, IsMeanOfSquares(node));
  if (is_of_squares) return MeanOfSquares(node, network);
  ASSIGN_OR_RETURN(ImageValue x, AnyImage(node));
  ASSIGN_OR_RETURN(const bool begins_norm, IsChannelMean(node, x));
  if (begins_norm) {
    network.Set(node.proto().output(0), NormPart{.x = std::move(x)});
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::vector<int64_t> axes,
                   ReducedAxes(node, static_cast<int64_t>(x.rank())));
  if (axes.empty() || x.is_flat() || !ReducesPositions(x, axes))
    return absl::UnimplementedError("it reduces other axes than the spatial ones");
  return AddMean(node, network, x, axes, node.Int("keepdims", 1) != 0);
}

absl::Status Same(NodeReader& node, NetworkBuilder& network) {
  if (const IdsValue* const ids = node.IfIds(0)) {
    if (node.op() == "Cast" && !IsInteger(node.Int("to", 0))) return node.Image(0).status();
    network.Set(node.proto().output(0), IdsValue(*ids));
    return absl::OkStatus();
  }
  const ImageValue* const x = node.IfImage(0);
  if (x == nullptr) return node.Image(0).status();
  if (node.op() == "Cast" && IsInteger(node.Int("to", 0)))
    return absl::UnimplementedError("it makes integers of a layer's output");
  network.Set(node.proto().output(0), ImageValue(*x));
  return absl::OkStatus();
}

absl::Status Shape(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(const ImageValue x, AnyImage(node));
  if (x.is_guess) {
    network.Set(node.proto().output(0), Unsupported{});
    return absl::OkStatus();
  }
  network.Set(node.proto().output(0), ShapeOf(node, x.dims()));
  return absl::OkStatus();
}

}  // namespace neap::nets::operators

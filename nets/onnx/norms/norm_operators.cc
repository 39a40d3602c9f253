// Norms of each image, as operators of their own and step by step.
#include "neap/nets/onnx/norms/norm_operators.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/norm/group_norm.h"
#include "neap/layers/norm/layer_norm.h"
#include "neap/nets/onnx/axes/rearrange.h"
#include "neap/nets/onnx/constants/constant_arrays.h"
#include "neap/nets/onnx/node_axes.h"
#include "neap/nets/onnx/norms/norm_layers.h"
#include "neap/nets/onnx/operators.h"

namespace neap::nets {
namespace {

using Stage = NormPart::Stage;

// Whether all elements of the constant input have the value.
absl::StatusOr<bool> IsAll(NodeReader& node, int i, double value) {
  ASSIGN_OR_RETURN(const Constant constant, node.Constant(i));
  return std::all_of(constant.values.begin(), constant.values.end(),
                     [&](double element) { return element == value; });
}

// Whether the constant input is of a node, and no tensor of the file, which training changes.
bool IsOfNode(const NodeReader& node, int i) {
  const std::optional<Stored> stored = node.IfStored(i);
  return !stored.has_value() || stored->tensor->name().empty();
}

// Whether the constant input is a parameter, and not the value that changes nothing, which a node
// states.
absl::StatusOr<bool> IsParameter(NodeReader& node, int i, double neutral) {
  if (!IsOfNode(node, i)) return true;
  ASSIGN_OR_RETURN(const bool is_neutral, IsAll(node, i, neutral));
  return !is_neutral;
}

// The parameters among the inputs 1 and 2 of a norm, its weight and its bias, which may be missing.
// A norm with a bias has a weight.
absl::StatusOr<std::vector<Weight>> Parameters(NodeReader& node) {
  bool has_bias = false;
  if (node.HasInput(2)) {
    ASSIGN_OR_RETURN(has_bias, IsParameter(node, 2, 0));
  }
  ASSIGN_OR_RETURN(const bool has_weight, IsParameter(node, 1, 1));
  std::vector<Weight> weights;
  if (!has_weight && !has_bias) return weights;
  ASSIGN_OR_RETURN(weights.emplace_back(), node.Tensor(1, "weight"));
  if (has_bias) {
    ASSIGN_OR_RETURN(weights.emplace_back(), node.Tensor(2, "bias"));
  }
  return weights;
}

// One number for each channel of one for each group.
absl::Status SpreadGroups(NetworkBuilder& network, int64_t of_group, Weight& weight) {
  ASSIGN_OR_RETURN(const Constant groups, network.ReadConstant(weight));
  if (groups.dims.size() != 1)
    return absl::InvalidArgumentError(absl::StrCat("its ", weight.name, " is no vector"));
  Constant channels = View(groups, {groups.dims[0], of_group}, {1, 0});
  channels.dims = {groups.dims[0] * of_group};
  weight.tensor = std::move(channels);
  return absl::OkStatus();
}

// An image, or a vector that is no image made flat.
absl::Status CheckHasChannels(const ImageValue& x) {
  if (!x.is_flat() || x.elements() == x.spec.shape.c()) return absl::OkStatus();
  return absl::UnimplementedError("it normalises the elements of an image that is made flat");
}

// Adds the norm with these parameters: none, a weight, or a weight and a bias.
template <typename Norm>
absl::Status AddNorm(NodeReader& node, NetworkBuilder& network, Norm norm, ImageValue x,
                     std::vector<Weight> weights) {
  norm.affine = !weights.empty();
  norm.bias = weights.size() != 1;  // says nothing without a weight
  return network.AddLayer(node.proto(), norm, {std::move(x)}, std::move(weights));
}

// An InstanceNormalization of groups of channels as if each were a channel, whether or not the
// axes behind are one: a group norm, whose parameters are constants behind it.
absl::Status NormaliseGroups(NodeReader& node, NetworkBuilder& network, const ImageValue& x,
                             float epsilon) {
  ASSIGN_OR_RETURN(const bool is_one, IsAll(node, 1, 1));
  ASSIGN_OR_RETURN(const bool is_zero, IsAll(node, 2, 0));
  if (!is_one || !is_zero) {
    return absl::UnimplementedError(
        "its scale and bias, which are those of groups of channels, are not 1 and 0");
  }
  const GroupNorm norm = {.groups = x.dims()[1], .epsilon = epsilon};
  return AddNorm(node, network, norm, x, {});
}

// Whether the second axis is groups of channels, so that all behind it is one group: C, or the
// outermost part of it.
bool HasGroups(const ImageValue& x) {
  if (x.is_image() || x.is_flat() || x.rank() < 3) return false;
  if (!x.arrangement.IsImages(0)) return false;
  const Factors& axis = x.arrangement.axes()[1];
  if (axis.empty()) return true;
  return axis.size() == 1 && axis[0].axis == 1 &&
         axis[0].stride * axis[0].extent == x.spec.shape.c();
}

// The axis of the channels in the ONNX graph.
int64_t ChannelAxis(const ImageValue& x) {
  return static_cast<int64_t>(x.channel_axis().value_or(0));
}

absl::Status NotANorm() {
  return absl::UnimplementedError(
      "it reads the mean over the channels, or what follows from it, which neap has in a layer "
      "norm only");
}

// Whether both are of the same images.
bool IsSame(const ImageValue& a, const ImageValue& b) {
  return a.layer == b.layer && a.arrangement == b.arrangement &&
         a.formula.has_value() == b.formula.has_value();
}

// What an operator with one argument makes of a part, if it is a step of a norm.
absl::Status StepOf(NodeReader& node, NetworkBuilder& network, NormPart part) {
  const std::string_view op = node.op();
  if (op == "Cast" || op == "Identity") {
    if (op == "Cast" && IsInteger(node.Int("to", 0))) return NotANorm();
  } else if (op == "ReduceMean" && part.stage == Stage::kSquares) {
    ASSIGN_OR_RETURN(const bool is_mean, IsChannelMean(node, part.x));
    if (!is_mean) return NotANorm();
    part.stage = Stage::kVariance;
  } else if (op == "Sqrt" && part.stage == Stage::kShifted) {
    part.stage = Stage::kDeviation;
  } else if (op == "Reciprocal" && part.stage == Stage::kDeviation) {
    part.stage = Stage::kInverse;
  } else {
    return NotANorm();
  }
  network.Set(node.proto().output(0), std::move(part));
  return absl::OkStatus();
}

// Keeps a length from 0 by a number, as torch.nn.functional.normalize does: it is added to the
// squares, which differs only where the length is about as small. What is above 1e-5 may be the
// length of no zero, as where vectors are made no longer than 1.
absl::Status KeepFromZero(double least, NormPart& part) {
  constexpr double kMaxLeast = 1e-5;
  if (!(least <= kMaxLeast)) {
    return absl::UnimplementedError(
        absl::StrCat("it keeps lengths above ", least, "; neap does so up to ", kMaxLeast));
  }
  const double positive = std::max(least, 0.0);  // no length is below 0
  part.epsilon = std::max(part.epsilon, static_cast<float>(positive * positive));
  return absl::OkStatus();
}

// Whether the node gives the greater one of its first two inputs, of which input `i` is a constant.
bool IsMaximum(const NodeReader& node, int i) {
  if (node.op() == "Max") return node.input_count() == 2;
  return node.op() == "Clip" && i == 1 && !node.HasInput(2);
}

// The same of a part and a constant, input `i`.
absl::Status StepWithConstant(NodeReader& node, NetworkBuilder& network, NormPart part, int i) {
  ASSIGN_OR_RETURN(const double constant, node.Scalar(i, 0));
  if (node.op() == "Pow" && i == 1 && part.stage == Stage::kCentred && constant == 2) {
    part.stage = Stage::kSquares;
  } else if (node.op() == "Add" && part.stage == Stage::kVariance) {
    part.stage = Stage::kShifted;
    part.epsilon = static_cast<float>(constant);
  } else if (node.op() == "Div" && i == 0 && part.stage == Stage::kDeviation && constant == 1) {
    part.stage = Stage::kInverse;
  } else if (IsMaximum(node, i) && part.is_sum && part.stage == Stage::kDeviation) {
    RETURN_IF_ERROR(KeepFromZero(constant, part));
  } else {
    return NotANorm();
  }
  network.Set(node.proto().output(0), std::move(part));
  return absl::OkStatus();
}

// An Expand to the extents of x.
absl::Status Repeat(NodeReader& node, NetworkBuilder& network, const NormPart& part) {
  ASSIGN_OR_RETURN(const Constant dims, node.Constant(1));
  if (ToIntegers(dims) != part.x.dims()) return NotANorm();
  network.Set(node.proto().output(0), NormPart(part));
  return absl::OkStatus();
}

// The same of two parts.
absl::Status StepOfBoth(NodeReader& node, NetworkBuilder& network, NormPart a, const NormPart& b) {
  if (!IsSame(a.x, b.x) || a.stage != Stage::kCentred) return NotANorm();
  if (node.op() == "Div" && b.stage == Stage::kDeviation && !b.axis.has_value())
    return AddNorm(node, network, LayerNorm{.epsilon = b.epsilon}, std::move(a.x), {});
  if (node.op() != "Mul" || b.stage != Stage::kCentred) return NotANorm();
  a.stage = Stage::kSquares;
  network.Set(node.proto().output(0), std::move(a));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<bool> IsChannelMean(NodeReader& node, const ImageValue& x) {
  const bool has_channels = x.channel_axis().has_value() && CheckHasChannels(x).ok();
  if (!has_channels || node.Int("keepdims", 1) == 0) return false;
  ASSIGN_OR_RETURN(const std::vector<int64_t> axes, ReducedAxes(node, std::ssize(x.dims())));
  return axes == std::vector<int64_t>{ChannelAxis(x)};
}

namespace operators {

absl::Status InstanceNormalization(NodeReader& node, NetworkBuilder& network) {
  const float epsilon = node.Float("epsilon", 1e-5F);
  ASSIGN_OR_RETURN(ImageValue x, node.ImageOfAnyLayout(0));
  if (HasGroups(x)) return NormaliseGroups(node, network, x, epsilon);
  ASSIGN_OR_RETURN(x, node.Image(0));
  RETURN_IF_ERROR(CheckHasChannels(x));
  ASSIGN_OR_RETURN(std::vector<Weight> weights, Parameters(node));
  return AddNorm(node, network, InstanceNorm{.epsilon = epsilon}, std::move(x), std::move(weights));
}

absl::Status GroupNormalization(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(ImageValue x, node.Image(0));
  RETURN_IF_ERROR(CheckHasChannels(x));
  const GroupNorm norm = {.groups = node.Int("num_groups", 0),
                          .epsilon = node.Float("epsilon", 1e-5F)};
  node.Int("stash_type", 1);  // statistics are fp32 either way
  const int64_t channels = x.spec.shape.c();
  ASSIGN_OR_RETURN(std::vector<Weight> weights, Parameters(node));
  constexpr int64_t kOpsetOfChannels = 21;  // before, parameters are those of groups
  for (Weight& weight : weights) {
    const bool is_of_groups = network.opset() < kOpsetOfChannels && norm.groups > 0;
    if (is_of_groups) RETURN_IF_ERROR(SpreadGroups(network, channels / norm.groups, weight));
  }
  return AddNorm(node, network, norm, std::move(x), std::move(weights));
}

absl::Status LayerNormalization(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(ImageValue x, node.ImageOfAnyLayout(0));
  RETURN_IF_ERROR(CheckHasChannels(x));
  const int64_t axis = node.Int("axis", -1), rank = std::ssize(x.dims());
  ASSIGN_OR_RETURN(const size_t from_zero, CheckedAxis(axis, rank));
  const bool is_last = static_cast<int64_t>(from_zero) == rank - 1;
  if (is_last && !x.is_flat() && !x.arrangement.IsWhole(x.rank() - 1, 1)) {
    ASSIGN_OR_RETURN(x, WithChannels(node.proto(), network, x, x.rank() - 1));
  }
  if (!is_last || !x.arrangement.IsWhole(x.rank() - 1, 1)) {
    return absl::UnimplementedError(absl::StrCat(
        "attribute 'axis' is ", axis, ", from which on the axes are not the channels alone"));
  }
  node.Int("stash_type", 1);  // statistics are fp32 either way
  ASSIGN_OR_RETURN(std::vector<Weight> weights, Parameters(node));
  return AddNorm(node, network, LayerNorm{.epsilon = node.Float("epsilon", 1e-5F)}, std::move(x),
                 std::move(weights));
}

absl::Status StepOfNorm(NodeReader& node, NetworkBuilder& network) {
  const NormPart* const a = node.IfNormPart(0);
  const NormPart* const b = node.IfNormPart(1);
  if (a == nullptr && b == nullptr) return NotANorm();
  if (a != nullptr && b != nullptr) return StepOfBoth(node, network, *a, *b);
  const NormPart& part = a != nullptr ? *a : *b;
  const int other = a != nullptr ? 1 : 0;
  if (node.op() == "Expand" && part.axis.has_value()) return Repeat(node, network, part);
  if (node.IsConstant(other) && node.op() != "ReduceMean")
    return StepWithConstant(node, network, part, other);
  if (const ImageValue* const x = node.IfImage(other)) {
    const bool centres = node.op() == "Sub" && part.stage == Stage::kMean && other == 0;
    const bool divides = node.op() == "Div" && part.stage == Stage::kDeviation && other == 0;
    const bool multiplies = node.op() == "Mul" && part.stage == Stage::kInverse;
    const bool ends = (divides || multiplies) && part.axis.has_value();  // otherwise of a centred x
    if (ends && IsSame(*x, part.x)) return AddNormOfSquares(node, network, part);
    if (!centres || !IsSame(*x, part.x)) return NotANorm();
    network.Set(node.proto().output(0), NormPart{Stage::kCentred, part.x});
    return absl::OkStatus();
  }
  return StepOf(node, network, part);
}

}  // namespace operators
}  // namespace neap::nets

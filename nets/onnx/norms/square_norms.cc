// Norms without a mean: x / sqrt(mean of x^2 + epsilon), as RMSNorm (Zhang and Sennrich, 2019), and
// x / |x|, as torch.nn.functional.normalize. A layer norm of x and -x, one behind the other in the
// channels, computes both: the mean of these is 0, and their variance the mean of x^2.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/channel_slice.h"
#include "neap/layers/join.h"
#include "neap/layers/norm/layer_norm.h"
#include "neap/layers/scale_shift.h"
#include "neap/nets/onnx/axes/rearrange.h"
#include "neap/nets/onnx/formula.h"
#include "neap/nets/onnx/node_axes.h"
#include "neap/nets/onnx/norms/norm_operators.h"
#include "neap/nets/onnx/operators.h"

namespace neap::nets {
namespace {

// The one axis that the node reduces, and keeps as 1; absent if it is another number of axes, or N
// is a part of it.
absl::StatusOr<std::optional<size_t>> ReducedAxis(NodeReader& node, const ImageValue& x) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> axes, ReducedAxes(node, std::ssize(x.dims())));
  if (axes.size() != 1 || node.Int("keepdims", 1) == 0) return std::nullopt;
  const auto axis = static_cast<size_t>(axes[0]);
  return x.arrangement.HasImages(axis) ? std::nullopt : std::optional(axis);
}

}  // namespace

absl::StatusOr<bool> IsMeanOfSquares(NodeReader& node) {
  const ImageValue* const x = node.IfImage(0);
  if (x == nullptr || !x->formula.has_value()) return false;
  const bool is_square = x->formula->function == Formula::Function::kNone &&
                         x->formula->term == Formula::Polynomial{0, 0, 1, 0};
  if (!is_square) return false;
  ASSIGN_OR_RETURN(const std::optional<size_t> axis, ReducedAxis(node, *x));
  return axis.has_value();
}

absl::Status AddNormOfSquares(NodeReader& node, NetworkBuilder& network, const NormPart& part) {
  const size_t axis = *part.axis;
  const onnx_schema::Node& proto = node.proto();
  ASSIGN_OR_RETURN(const ImageValue x, WithChannels(proto, network, part.x, axis));
  const int64_t channels = x.spec.shape.c();
  const ImageValue plain = Plain(x);
  ASSIGN_OR_RETURN(const ImageValue negative,
                   network.AddExtra(proto, {}, "_negative", ScaleShift{.scale = -1}, {plain}));
  ASSIGN_OR_RETURN(ImageValue both,
                   network.AddExtra(proto, {}, "_both", Concat{}, {plain, negative}));
  // That of a sum, of which the layer takes the mean.
  const float count = part.is_sum ? static_cast<float>(channels) : 1.0F;
  constexpr float kLeast = 1e-30F;
  const LayerNorm norm = {.epsilon = std::max(part.epsilon / count, kLeast), .affine = false};
  ASSIGN_OR_RETURN(both, network.AddExtra(proto, {}, "_norm", norm, {both}));
  const ChannelSlice half = {.first = 0, .count = channels};
  if (part.is_sum) {
    ASSIGN_OR_RETURN(both, network.AddExtra(proto, {}, "_half", half, {both}));
    RETURN_IF_ERROR(network.AddLayer(proto, ScaleShift{.scale = 1 / std::sqrt(count)}, {both}, {},
                                     Form::kImage));
  } else {
    RETURN_IF_ERROR(network.AddLayer(proto, half, {both}, {}, Form::kImage));
  }
  network.SetArrangement(proto, x.arrangement);
  return absl::OkStatus();
}

namespace operators {

absl::Status MeanOfSquares(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(ImageValue x, node.FormulaImage(0));
  ASSIGN_OR_RETURN(const std::optional<size_t> axis, ReducedAxis(node, x));
  x.formula.reset();
  NormPart part = {.stage = NormPart::Stage::kVariance, .x = std::move(x)};
  part.axis = axis;
  network.Set(node.proto().output(0), std::move(part));
  return absl::OkStatus();
}

absl::Status ReduceL2(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(ImageValue x, node.ImageOfAnyLayout(0));
  ASSIGN_OR_RETURN(const std::optional<size_t> axis, ReducedAxis(node, x));
  if (!axis.has_value())
    return absl::UnimplementedError("it is the norm of other axes than one that is kept as 1");
  NormPart part = {.stage = NormPart::Stage::kDeviation, .x = std::move(x)};
  part.axis = axis;
  part.is_sum = true;
  network.Set(node.proto().output(0), std::move(part));
  return absl::OkStatus();
}

}  // namespace operators
}  // namespace neap::nets

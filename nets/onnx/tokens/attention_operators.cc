// Attention: the operator of its own (opset 23), and what exporters write where there is none.
//
//   scores = MatMul(query, key), with the axes {N, heads, Tq, d} and {N, heads, d, Tk}
//   Mul or Div by numbers, of the scores or of query and key before; Add of a constant or of a
//   layer's output; Where with a mask; Softmax over the last axis; MatMul(weights, value)
//
// The axes before the last two may be one, or be in another order. Those that are positions, the
// windows of Swin, are heads of the layer, too: each reads its own positions alone.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/attention/attention.h"
#include "neap/layers/scale_shift.h"
#include "neap/nets/onnx/axes/rearrange.h"
#include "neap/nets/onnx/node_axes.h"
#include "neap/nets/onnx/operators.h"
#include "neap/nets/onnx/tokens/constant_query.h"
#include "neap/nets/onnx/tokens/head_axes.h"
#include "neap/nets/onnx/tokens/score_bias.h"

namespace neap::nets::operators {
namespace {

using Stage = AttentionPart::Stage;

// The layer's output before products with numbers, which `scale` gets.
ImageValue WithoutScale(const ImageValue& x, const NetworkBuilder& network, double& scale) {
  ImageValue before = x;
  const auto* linear = network.LayerOf(before).layer.As<ScaleShift>();
  while (linear != nullptr && !linear->learns() && linear->shift == 0) {
    scale *= static_cast<double>(linear->scale);
    before.layer = network.LayerOf(before).inputs[0];
    linear = network.LayerOf(before).layer.As<ScaleShift>();
  }
  return before;
}

std::vector<int64_t> Swapped(size_t rank) {
  std::vector<int64_t> order(rank);
  for (size_t i = 0; i < rank; ++i) order[i] = static_cast<int64_t>(i);
  std::swap(order[rank - 1], order[rank - 2]);
  return order;
}

// The scores of query {N, heads, Tq, d} and key {N, heads, Tk, d}.
absl::StatusOr<AttentionPart> ScoresOf(const NodeReader& node, NetworkBuilder& network,
                                       const ImageValue& query, const ImageValue& key) {
  const std::vector<int64_t> q = query.dims(), k = key.dims();
  const size_t rank = q.size();
  if (rank < 3 || k.size() != rank || q.back() != k.back()) return NoAttention();
  bool fits = true;
  for (size_t i = 0; i + 2 < rank; ++i) {
    const bool shares_heads = i + 3 == rank && i > 0 && k[i] == 1;
    fits = fits && (q[i] == k[i] || shares_heads);
  }
  if (!fits || !HeadAxesOf(query).has_value() || !HeadAxesOf(key).has_value()) return NoAttention();
  AttentionPart part;
  ASSIGN_OR_RETURN(part.query,
                   WithHeads(node.proto(), network, WithoutScale(query, network, part.scale)));
  ASSIGN_OR_RETURN(part.key,
                   WithHeads(node.proto(), network, WithoutScale(key, network, part.scale)));
  part.heads = ExtentOf(HeadAxesOf(part.query)->heads);
  part.kv_heads = ExtentOf(HeadAxesOf(part.key)->heads);
  part.dims = q;
  part.dims.back() = k[rank - 2];
  return part;
}

// The output of the layer, with the axes of the query and the dimensions of the value.
Arrangement ArrangementOf(const ImageValue& query, const neap::Shape& output, int64_t batch) {
  const int64_t dims = ExtentOf(query.arrangement.axes().back());
  std::vector<int64_t> layer(output.dims().begin(), output.dims().end());
  layer[0] = batch;
  const int64_t heads = query.spec.shape.c() / dims, value_dims = output.c() / heads;
  std::vector<Factors> axes = query.arrangement.axes();
  for (Factors& axis : axes) {
    for (Factor& factor : axis) {
      if (factor.axis == 1) factor.stride = factor.stride / dims * value_dims;
    }
  }
  axes.back() = {{1, value_dims, 1}};
  return {std::move(layer), std::move(axes)};
}

// All three with one spatial axis, unless they have the same ones.
absl::Status WithSamePositions(const NodeReader& node, NetworkBuilder& network,
                               std::vector<ImageValue>& inputs) {
  if (inputs[1].spec.shape.spatial() == inputs[2].spec.shape.spatial()) return absl::OkStatus();
  for (size_t i = 1; i < 3; ++i) {
    const HeadAxes axes = *HeadAxesOf(inputs[i]);
    ASSIGN_OR_RETURN(inputs[i],
                     WithAxes(node.proto(), network, inputs[i], {axes.channels(), axes.positions}));
  }
  return absl::OkStatus();
}

// The layer of the scores' softmax and a value {N, heads, Tk, d}.
absl::Status AddAttention(const NodeReader& node, NetworkBuilder& network,
                          const AttentionPart& part, const ImageValue& given) {
  const std::vector<int64_t> v = given.dims();
  const bool fits = v.size() == part.dims.size() && v[v.size() - 2] == part.dims.back() &&
                    HeadAxesOf(given).has_value();
  if (!fits) return NoAttention();
  ASSIGN_OR_RETURN(const ImageValue value, WithHeads(node.proto(), network, given));
  if (ExtentOf(HeadAxesOf(value)->heads) != part.kv_heads) return NoAttention();
  const int64_t dims = part.query.spec.shape.c() / part.heads;
  const bool is_default = std::abs(part.scale * std::sqrt(static_cast<double>(dims)) - 1) < 1e-5;
  if (!is_default && !(part.scale > 0))
    return absl::UnimplementedError("its scores are multiplied by a number that is not positive");
  const neap::Attention layer = {.heads = part.heads,
                                 .kv_heads = part.kv_heads == part.heads ? 0 : part.kv_heads,
                                 .causal = part.causal,
                                 .scale = is_default ? 0 : static_cast<float>(part.scale),
                                 .learned_bias = part.bias.has_value()};
  std::vector<ImageValue> inputs = {part.query, part.key, value};
  RETURN_IF_ERROR(WithSamePositions(node, network, inputs));
  std::optional<ImageValue> whole = network.WholeOf(inputs);
  if (whole.has_value()) inputs = {*std::move(whole)};
  if (part.added.has_value()) inputs.push_back(*part.added);
  std::vector<Weight> weights;
  if (part.bias.has_value())
    weights.push_back({.name = "bias", .tensor = *part.bias, .value = part.bias_name});
  RETURN_IF_ERROR(network.AddLayer(node.proto(), layer, inputs, std::move(weights), Form::kImage));
  const auto& output = std::get<ImageValue>(*network.Find(node.proto().output(0)));
  network.SetArrangement(node.proto(),
                         ArrangementOf(part.query, output.spec.shape, network.graph_batch()));
  return absl::OkStatus();
}

// The product of the weights with values {N, heads, Tk, d}, or of values {N, heads, d, Tk} with the
// weights {N, heads, Tk, Tq}.
absl::Status AddWithValue(NodeReader& node, NetworkBuilder& network, int at,
                          const AttentionPart& part) {
  const int other = 1 - at;
  const bool fits = node.op() == "MatMul" && (at == 1) == part.is_transposed;
  if (!fits || node.IfImage(other) == nullptr) return NoAttention();
  ASSIGN_OR_RETURN(ImageValue value, node.ImageOfAnyLayout(other));
  if (value.rank() != part.dims.size()) return NoAttention();
  if (!part.is_transposed) return AddAttention(node, network, part, value);
  value.arrangement = value.arrangement.Transposed(Swapped(value.rank()));
  RETURN_IF_ERROR(AddAttention(node, network, part, value));
  const auto& output = std::get<ImageValue>(*network.Find(node.proto().output(0)));
  network.SetArrangement(node.proto(), output.arrangement.Transposed(Swapped(output.rank())));
  return absl::OkStatus();
}

// Other axes before the last two, as Swin adds the masks of its windows by.
absl::Status DivideScores(NodeReader& node, const NetworkBuilder& network, AttentionPart& part) {
  ASSIGN_OR_RETURN(std::vector<int64_t> dims, AxesAfter(node, part.dims));
  const bool keeps = dims.size() > 2 &&
                     std::equal(dims.end() - 2, dims.end(), part.dims.end() - 2) &&
                     dims[0] % network.graph_batch() == 0;  // N stays the outermost one
  if (!keeps) return NoAttention();
  part.dims = std::move(dims);
  return absl::OkStatus();
}

// A number for each head, {heads, 1, 1}, which multiplies the query instead.
absl::Status ScaleHeads(NodeReader& node, NetworkBuilder& network, int factors,
                        AttentionPart& part) {
  ASSIGN_OR_RETURN(const Constant constant, node.Constant(factors));
  const size_t rank = constant.dims.size();
  const bool is_of_heads = rank >= 3 && rank <= part.dims.size() &&
                           constant.dims[rank - 1] * constant.dims[rank - 2] == 1;
  if (!is_of_heads || part.query.rank() != part.dims.size()) return NoAttention();
  ASSIGN_OR_RETURN(const ImageValue query, AddMultiplied(node, network, part.query, factors));
  ASSIGN_OR_RETURN(part.query, WithHeads(node.proto(), network, query));
  return absl::OkStatus();
}

// What an operator makes of the scores.
absl::Status ChangeScores(NodeReader& node, NetworkBuilder& network, int at, AttentionPart& part) {
  const std::string_view op = node.op();
  const int other = 1 - at;
  if (op == "Where") return HideScores(node, network, part);
  if (ChangesAxes(op)) return DivideScores(node, network, part);
  if (op == "Add") return AddToScores(node, network, other, part);
  if (op == "Softmax") {
    ASSIGN_OR_RETURN(const size_t axis, SoftmaxAxis(node, network.opset(), part.dims));
    if (axis + 1 != part.dims.size()) return NoAttention();
    part.stage = Stage::kWeights;
    return absl::OkStatus();
  }
  const bool scales = op == "Mul" || (op == "Div" && at == 0);
  if (!scales || !node.IsConstant(other) || part.bias.has_value() || part.causal ||
      part.added.has_value())
    return NoAttention();
  ASSIGN_OR_RETURN(const Constant factor, node.Constant(other));
  if (op == "Mul" && factor.values.size() > 1) return ScaleHeads(node, network, other, part);
  ASSIGN_OR_RETURN(const double number, node.Scalar(other, 1));
  part.scale *= op == "Mul" ? number : 1 / number;
  return absl::OkStatus();
}

// Whether the node changes nothing outside training.
absl::StatusOr<bool> KeepsAll(NodeReader& node) {
  if (node.op() == "Identity") return true;
  if (node.op() == "Cast") return !IsInteger(node.Int("to", 0));
  if (node.op() != "Dropout") return false;
  const double stated = node.Float("ratio", 0.5F);
  ASSIGN_OR_RETURN(const double ratio, node.Scalar(1, stated));
  node.Int("seed", 0);
  if (ratio != 0)
    return absl::UnimplementedError("it drops weights of an attention, which neap does not");
  return true;
}

// {N, T, heads * d} as {N, heads, T, d}; {N, heads, T, d} as it is.
absl::StatusOr<ImageValue> WithFourAxes(NodeReader& node, int i, int64_t heads) {
  ASSIGN_OR_RETURN(ImageValue x, node.ImageOfAnyLayout(i));
  if (x.rank() == 4) return x;
  const std::vector<int64_t> dims = x.dims();
  if (dims.size() != 3 || heads < 1 || dims[2] % heads != 0)
    return absl::InvalidArgumentError(absl::StrCat("its input ", i, " has no ", heads, " heads"));
  const auto divided = x.arrangement.Reshaped({dims[0], dims[1], heads, dims[2] / heads});
  if (!divided.has_value()) return NoAttention();
  x.arrangement = divided->Transposed({0, 2, 1, 3});
  return x;
}

}  // namespace

absl::Status AttentionScores(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(ImageValue key, node.ImageOfAnyLayout(1));
  const bool has_positions = key.rank() >= 3;
  if (has_positions) key.arrangement = key.arrangement.Transposed(Swapped(key.rank()));
  ImageValue query;
  if (node.IsConstant(0)) {
    ASSIGN_OR_RETURN(const Constant constant, node.ConstantForImages(0, key));
    ASSIGN_OR_RETURN(query, ConstantQuery(node.proto(), network, constant, key));
  } else {
    ASSIGN_OR_RETURN(query, node.ImageOfAnyLayout(0));
  }
  if (!has_positions || query.rank() != key.rank()) return NoAttention();
  ASSIGN_OR_RETURN(AttentionPart part, ScoresOf(node, network, query, key));
  network.Set(node.proto().output(0), std::move(part));
  return absl::OkStatus();
}

absl::Status StepOfAttention(NodeReader& node, NetworkBuilder& network) {
  int at = 0;
  while (node.IfAttentionPart(at) == nullptr) ++at;
  AttentionPart part = *node.IfAttentionPart(at);
  const bool takes_two =
      node.op() == "Add" || node.op() == "Div" || node.op() == "MatMul" || node.op() == "Mul";
  const bool fits = takes_two ? node.input_count() == 2 : at == 0 || node.op() == "Where";
  if (!fits) return NoAttention();
  ASSIGN_OR_RETURN(bool keeps, KeepsAll(node));
  if (!keeps && part.stage == Stage::kWeights) {
    if (node.op() != "Transpose") return AddWithValue(node, network, at, part);
    ASSIGN_OR_RETURN(const std::vector<int64_t> order, ReadOrder(node, std::ssize(part.dims)));
    if (order != Swapped(order.size())) return NoAttention();
    part.is_transposed = !part.is_transposed;
    keeps = true;
  }
  if (!keeps) RETURN_IF_ERROR(ChangeScores(node, network, at, part));
  network.Set(node.proto().output(0), std::move(part));
  return absl::OkStatus();
}

absl::Status Attention(NodeReader& node, NetworkBuilder& network) {
  const int64_t heads = node.Int("q_num_heads", 0), kv_heads = node.Int("kv_num_heads", heads);
  const bool has_four = node.IfImage(0) != nullptr && node.IfImage(0)->rank() == 4;
  ASSIGN_OR_RETURN(const ImageValue query, WithFourAxes(node, 0, heads));
  ASSIGN_OR_RETURN(const ImageValue key, WithFourAxes(node, 1, kv_heads));
  ASSIGN_OR_RETURN(const ImageValue value, WithFourAxes(node, 2, kv_heads));
  if (query.dims()[1] != key.dims()[1])
    return absl::UnimplementedError("heads of its query share those of its key");
  if (node.HasInput(4) || node.HasInput(5))
    return absl::UnimplementedError("it reads keys and values of the past");
  if (node.HasInput(6)) return absl::UnimplementedError("it reads how many keys each image has");
  if (node.Float("softcap", 0) != 0) return absl::UnimplementedError("attribute 'softcap'");
  node.Int("qk_matmul_output_mode", 0);  // only for an output that is refused
  node.Int("softmax_precision", 0);
  ASSIGN_OR_RETURN(AttentionPart part, ScoresOf(node, network, query, key));
  const float stated = node.Float("scale", 0);
  part.scale *= stated != 0 ? static_cast<double>(stated)
                            : 1 / std::sqrt(static_cast<double>(query.dims().back()));
  if (node.HasInput(3)) RETURN_IF_ERROR(AddToScores(node, network, 3, part));
  if (node.Int("is_causal", 0) != 0) part.causal = true;
  RETURN_IF_ERROR(AddAttention(node, network, part, value));
  if (has_four) return absl::OkStatus();
  const ImageValue output = std::get<ImageValue>(*network.Find(node.proto().output(0)));
  const Arrangement behind = output.arrangement.Transposed({0, 2, 1, 3});
  const std::vector<int64_t> dims = behind.dims();
  const auto joined = behind.Reshaped({dims[0], dims[1], dims[2] * dims[3]});
  if (!joined.has_value()) return NoAttention();
  network.SetArrangement(node.proto(), *joined);
  return absl::OkStatus();
}

}  // namespace neap::nets::operators

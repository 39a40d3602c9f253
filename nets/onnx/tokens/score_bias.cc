#include "neap/nets/onnx/tokens/score_bias.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "neap/core/base/status_macros.h"
#include "neap/nets/onnx/axes/rearrange.h"
#include "neap/nets/onnx/constants/constant_arrays.h"
#include "neap/nets/onnx/constants/constant_math.h"
#include "neap/nets/onnx/tokens/head_axes.h"

namespace neap::nets {
namespace {

// A constant that is added to the scores, as {heads, Tq, Tk}.
absl::StatusOr<Constant> ForHeads(const AttentionPart& part, Constant constant,
                                  NetworkBuilder& network) {
  const size_t rank = part.dims.size();
  std::vector<int64_t> of_image = part.dims;
  of_image[0] /= network.graph_batch();  // N, or N and what is joined with it
  const bool is_of_images =
      constant.dims.size() == rank && of_image[0] == 1 && constant.dims[0] == part.dims[0];
  if (is_of_images && HasSameEntries(constant)) constant = Taken(constant, 0, {0});
  if (BroadcastDims(constant.dims, of_image) != of_image) {
    return absl::UnimplementedError(
        absl::StrCat("its constant is ", absl::StrJoin(constant.dims, "x"), ", and the scores ",
                     absl::StrJoin(part.dims, "x")));
  }
  RETURN_IF_ERROR(network.CountConstant(of_image));
  Constant all = BroadcastTo(constant, of_image);
  all.dims = {part.heads, part.dims[rank - 2], part.dims[rank - 1]};
  if (std::ssize(all.values) != all.dims[0] * all.dims[1] * all.dims[2]) return NoAttention();
  return all;
}

// Hides a key when it is added to its score, or in its place: -10,000, as bf16 rounds it.
constexpr double kHidden = -9984;

// Whether the constant hides the keys behind each query, and nothing else.
bool IsCausal(const Constant& bias) {
  const auto queries = static_cast<size_t>(bias.dims[1]), keys = static_cast<size_t>(bias.dims[2]);
  for (size_t i = 0; i < bias.values.size(); ++i) {
    const size_t key = i % keys, query = i / keys % queries;
    const double value = bias.values[i];
    if (key > query ? !(value <= kHidden) : value != 0) return false;
  }
  return keys > 1 && queries > 1;
}

absl::Status AddBias(const NodeReader& node, NetworkBuilder& network, const Constant& constant,
                     const std::string& name, AttentionPart& part) {
  if (part.added.has_value()) return absl::UnimplementedError("it adds a constant to another bias");
  ASSIGN_OR_RETURN(Constant bias, ForHeads(part, constant, network));
  const bool is_nothing =
      std::all_of(bias.values.begin(), bias.values.end(), [](double value) { return value == 0; });
  if (is_nothing && !node.IfStored(0).has_value() && !node.IfStored(1).has_value())
    return absl::OkStatus();
  if (!part.bias.has_value() && !part.causal && IsCausal(bias)) {
    part.causal = true;
    return absl::OkStatus();
  }
  if (part.bias.has_value()) {
    ASSIGN_OR_RETURN(bias, Elementwise(network.budget(), "Add", {*part.bias, bias}));
  }
  // A number that no softmax tells from -infinity, which training would make NaN.
  constexpr double kLowest = -1e9;
  for (double& value : bias.values) value = std::max(value, kLowest);
  part.bias_name = part.bias.has_value() ? "" : name;
  part.bias = std::move(bias);
  return absl::OkStatus();
}

// A bias of each image {N, heads or 1, Tq, Tk}.
absl::Status AddImages(const NodeReader& node, NetworkBuilder& network, const ImageValue& added,
                       AttentionPart& part) {
  const std::vector<int64_t> dims = added.dims();
  const bool fits = dims.size() == 4 && part.dims.size() == 4 && dims[0] == part.dims[0] &&
                    (dims[1] == 1 || dims[1] == part.heads) && dims[2] == part.dims[2] &&
                    dims[3] == part.dims[3];
  if (!fits || part.bias.has_value() || part.added.has_value())
    return absl::UnimplementedError("it adds a layer's output to the scores of an attention");
  ASSIGN_OR_RETURN(part.added, AsImage(node.proto(), network, added));
  return absl::OkStatus();
}

// The scores where the mask of an Attention is true alone.
absl::Status KeepScores(const NodeReader& node, NetworkBuilder& network, const Constant& mask,
                        AttentionPart& part) {
  const Constant zero = {.values = {0}, .type = onnx_schema::Tensor::FLOAT};
  const Constant hidden = {.values = {-HUGE_VAL}, .type = onnx_schema::Tensor::FLOAT};
  ASSIGN_OR_RETURN(const Constant bias,
                   Elementwise(network.budget(), "Where", {mask, zero, hidden}));
  return AddBias(node, network, bias, "", part);
}

}  // namespace

absl::Status AddToScores(NodeReader& node, NetworkBuilder& network, int other,
                         AttentionPart& part) {
  if (const ImageValue* const added = node.IfImage(other))
    return AddImages(node, network, *added, part);
  ASSIGN_OR_RETURN(Constant constant, node.Constant(other));
  if (constant.type == onnx_schema::Tensor::BOOL) return KeepScores(node, network, constant, part);
  const std::optional<Stored> stored = node.IfStored(other);
  const std::string name = stored.has_value() ? stored->name() : node.proto().input(other);
  return AddBias(node, network, constant, name, part);
}

absl::Status HideScores(NodeReader& node, NetworkBuilder& network, AttentionPart& part) {
  if (node.IfAttentionPart(1) == nullptr && node.IfAttentionPart(2) == nullptr)
    return NoAttention();
  const bool keeps_true = node.IfAttentionPart(1) != nullptr;
  ASSIGN_OR_RETURN(const Constant mask, node.Constant(0));
  ASSIGN_OR_RETURN(const Constant hidden, node.Constant(keeps_true ? 2 : 1));
  const auto with_kept = [&](double kept) {
    const Constant number = {.values = {kept}, .type = hidden.type};
    return Elementwise(network.budget(), "Where",
                       keeps_true ? std::vector<Constant>{mask, number, hidden}
                                  : std::vector<Constant>{mask, hidden, number});
  };
  ASSIGN_OR_RETURN(const Constant replaced, with_kept(kHidden));
  const auto hides = [](double number) { return number <= kHidden; };
  if (!std::all_of(replaced.values.begin(), replaced.values.end(), hides)) {
    return absl::UnimplementedError(
        "it replaces scores by numbers above -10,000, which do not hide their keys");
  }
  ASSIGN_OR_RETURN(Constant bias, with_kept(0));
  for (double& value : bias.values) value = value == 0 ? 0 : -HUGE_VAL;  // replaces any score
  return AddBias(node, network, bias, "", part);
}

}  // namespace neap::nets

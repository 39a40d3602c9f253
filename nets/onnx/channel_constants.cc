// Layers of constants for each channel, which are added or multiplied.
#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/scale_shift.h"
#include "neap/nets/onnx/constants/constant_math.h"
#include "neap/nets/onnx/network_builder.h"

namespace neap::nets {

using onnx_schema::Node;

namespace {

// Whether the elements come in the order in which the file has them: a matrix that is transposed
// has another one.
bool IsInOrder(const Stored& stored) {
  const std::vector<int64_t> dims = stored.dims();
  return !stored.is_transposed ||
         std::count_if(dims.begin(), dims.end(), [](int64_t extent) { return extent != 1; }) < 2;
}

}  // namespace

std::optional<ScaledInput> NetworkBuilder::WrittenScale(const Node& node,
                                                        const ImageValue& x) const {
  const Draft& draft = drafts_[draft_of_.at(x.layer)];
  const auto* const product = draft.layer.layer.As<ScaleShift>();
  const bool is_of_node = product != nullptr && product->shift == 0 && !product->learns_shift &&
                          draft.layer.name == absl::StrCat(node.name(), ".scale");
  if (!written_by_neap() || !is_of_node) return std::nullopt;
  return ScaledInput{*product, draft.weights, draft.layer.inputs[0]};
}

absl::Status NetworkBuilder::AddConstants(const Node& node, Constants kind, const ImageValue& x,
                                          Constant constant, std::string value,
                                          std::optional<Stored> stored) {
  const bool adds = kind == Constants::kAdds;
  ScaleShift layer = {.learns_scale = !adds, .learns_shift = adds};
  constant.dims.assign(static_cast<size_t>(x.spec.shape.rank()) - 1, 1);
  constant.dims[0] = x.spec.shape.c();
  std::vector<Weight> weights = {{.name = adds ? "layer_shift" : "layer_scale",
                                  .tensor = std::move(constant),
                                  .value = std::move(value)}};
  ImageValue input = x;
  if (std::optional<ScaledInput> product = WrittenScale(node, x); product.has_value() && adds) {
    layer.scale = product->layer.scale;
    layer.learns_scale = product->layer.learns_scale;
    input.layer = std::move(product->input);
    weights.insert(weights.begin(), product->weights.begin(), product->weights.end());
  }
  RETURN_IF_ERROR(AddLayer(node, layer, {input}, std::move(weights)));
  drafts_.back().constants = kind;
  if (stored.has_value() && IsInOrder(*stored)) drafts_.back().stored = std::move(stored);
  return absl::OkStatus();
}

absl::StatusOr<bool> NetworkBuilder::JoinScale(Draft& before, Draft& draft) {
  if (draft.constants == Constants::kMultiplies && before.constants != Constants::kAdds)
    return false;
  Weight& own = before.weights.back();  // the shift, if there is one
  Weight& joined = draft.weights[0];
  const bool has_shift = before.layer.layer.As<ScaleShift>()->learns_shift;
  if (has_shift) {  // (x + shift) * scale, or another shift
    const bool adds = draft.constants == Constants::kAdds;
    ASSIGN_OR_RETURN(own.tensor, Elementwise(constants_, adds ? "Add" : "Mul",
                                             {std::get<Constant>(own.tensor),
                                              std::get<Constant>(joined.tensor)}));
    if (adds) return true;
    before.constants = Constants::kNone;
  }
  before.layer.layer = ScaleShift{.learns_scale = true, .learns_shift = true};
  before.spec = before.layer.layer.Specify({.inputs = {before.spec.output}}).value();
  before.weights.insert(has_shift ? before.weights.begin() : before.weights.end(),
                        std::move(joined));
  return true;
}

}  // namespace neap::nets

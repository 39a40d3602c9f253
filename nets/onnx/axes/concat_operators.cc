// Concatenation along an axis.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/join.h"
#include "neap/layers/tokens/prepend_token.h"
#include "neap/nets/onnx/axes/rearrange.h"
#include "neap/nets/onnx/constants/constant_arrays.h"
#include "neap/nets/onnx/node_axes.h"
#include "neap/nets/onnx/operators.h"

namespace neap::nets::operators {
namespace {

// Whether the values have the channels along the axis, and the same axes but for their number.
bool HaveChannels(const std::vector<ImageValue>& inputs, size_t axis) {
  const auto without = [&](const ImageValue& x) { return x.arrangement.WithExtent(axis, 1, 1); };
  return std::all_of(inputs.begin(), inputs.end(), [&](const ImageValue& x) {
    return x.arrangement.IsWhole(axis, 1) && without(x) == without(inputs[0]);
  });
}

absl::Status AddConcat(NodeReader& node, NetworkBuilder& network, std::vector<ImageValue> inputs,
                       size_t axis) {
  if (!HaveChannels(inputs, axis)) {
    for (ImageValue& input : inputs) {
      ASSIGN_OR_RETURN(input, WithChannels(node.proto(), network, input, axis));
    }
  }
  const Arrangement first = inputs[0].arrangement;
  RETURN_IF_ERROR(network.AddLayer(node.proto(), neap::Concat{}, inputs, {}, Form::kImage));
  const auto& joined = std::get<ImageValue>(*network.Find(node.proto().output(0)));
  network.SetArrangement(node.proto(), first.WithExtent(axis, 1, joined.spec.shape.c()));
  return absl::OkStatus();
}

// The vectors of a constant {N, tokens, C} or {N, C, tokens} that has them along `axis`, the same
// for all images.
absl::StatusOr<std::vector<Constant>> VectorsOf(const Constant& constant, int64_t channels,
                                                size_t axis, int64_t batch) {
  const bool fits = constant.dims.size() == 3 && constant.dims[3 - axis] == channels &&
                    (constant.dims[0] == 1 || constant.dims[0] == batch);
  if (!fits) return absl::UnimplementedError("it joins a layer's output and a constant");
  const int64_t tokens = constant.dims[axis];
  if (!HasSameEntries(constant))
    return absl::UnimplementedError("it joins a constant that differs between the images");
  std::vector<Constant> vectors;
  for (int64_t token = 0; token < tokens; ++token) {
    const bool is_last = axis == 1;  // the channels
    vectors.push_back(
        View(constant, {channels}, {is_last ? 1 : tokens}, token * (is_last ? channels : 1)));
    vectors.back().dims = {1, channels, 1};
  }
  return vectors;
}

// A token that is put before those of x, with the name of its tensor in the graph.
struct Token {
  Constant vector;
  std::string name;
};

// {N, T, C} or {N, C, T} behind constants of tokens: a layer for each of them, from the last one.
absl::Status Prepend(NodeReader& node, NetworkBuilder& network, size_t axis) {
  const int last = node.input_count() - 1;
  ASSIGN_OR_RETURN(ImageValue x, node.ImageOfAnyLayout(last));
  if (x.rank() != 3 || axis == 0 || !x.arrangement.IsImages(0))
    return absl::UnimplementedError("it joins a layer's output and a constant");
  ASSIGN_OR_RETURN(x, WithChannels(node.proto(), network, x, 3 - axis));
  std::vector<Token> tokens;
  for (int i = 0; i < last; ++i) {
    ASSIGN_OR_RETURN(const Constant constant, node.ConstantForImages(i, x));
    ASSIGN_OR_RETURN(const std::vector<Constant> vectors,
                     VectorsOf(constant, x.spec.shape.c(), axis, network.graph_batch()));
    const std::optional<Stored> stored = node.IfStored(i);
    const std::string name = stored.has_value() ? stored->name() : node.proto().input(i);
    for (const Constant& vector : vectors)
      tokens.push_back({vector, vectors.size() == 1 ? name : ""});
  }
  for (size_t i = tokens.size(); i-- > 0;) {
    Weight weight = {.name = "weight", .tensor = tokens[i].vector, .value = tokens[i].name};
    RETURN_IF_ERROR(network.AddLayer(node.proto(), PrependToken{}, {x}, {std::move(weight)},
                                     axis == 1 ? Form::kChannelsLast : Form::kImage));
    x = std::get<ImageValue>(*network.Find(node.proto().output(0)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Concat(NodeReader& node, NetworkBuilder& network) {
  const int last = node.input_count() - 1;
  const ImageValue* const x = last < 0 ? nullptr : node.IfImage(last);
  const bool has_constants = last > 0 && x != nullptr && node.IsConstant(0);
  if (has_constants) {
    ASSIGN_OR_RETURN(const size_t axis,
                     CheckedAxis(node.Int("axis", 1), static_cast<int64_t>(x->rank())));
    return Prepend(node, network, axis);
  }
  std::vector<ImageValue> inputs;
  for (int i = 0; i <= last; ++i) {
    ASSIGN_OR_RETURN(inputs.emplace_back(), node.ImageOfAnyLayout(i));
    if (inputs[0].rank() == inputs.back().rank()) continue;
    return absl::UnimplementedError(
        absl::StrCat("its input ", i, " has other axes than the first input"));
  }
  if (inputs.empty()) return absl::InvalidArgumentError("it has no input");
  ASSIGN_OR_RETURN(const size_t axis,
                   CheckedAxis(node.Int("axis", 1), static_cast<int64_t>(inputs[0].rank())));
  for (const ImageValue& input : inputs) {
    if (!input.arrangement.HasImages(axis)) continue;
    return absl::UnimplementedError(
        absl::StrCat("attribute 'axis' is ", axis, ", that of the images"));
  }
  if (inputs.size() > 1) return AddConcat(node, network, std::move(inputs), axis);
  network.Set(node.proto().output(0), inputs[0]);
  return absl::OkStatus();
}

}  // namespace neap::nets::operators

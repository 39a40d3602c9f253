// Operators on ids, and constants for each position: the beginnings of networks of sequences.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/tokens/embedding.h"
#include "neap/layers/tokens/position_embedding.h"
#include "neap/nets/onnx/axes/rearrange.h"
#include "neap/nets/onnx/operators.h"

namespace neap::nets {
namespace {

using onnx_schema::Node;
using onnx_schema::ValueInfo;

// The value's name, and those that nodes give it unchanged.
std::vector<std::string> NamesOf(const std::string& value, const onnx_schema::Graph& graph) {
  std::vector<std::string> names = {value};
  for (const Node& node : graph.node()) {
    const bool keeps = node.op_type() == "Cast" || node.op_type() == "Identity";
    if (!keeps || node.input_size() != 1 || node.output_size() != 1) continue;
    if (std::count(names.begin(), names.end(), node.input(0)) > 0) names.push_back(node.output(0));
  }
  return names;
}

// Whether a constant of these extents has one value for each channel and position of images, and
// none for each image.
bool IsPerPosition(std::vector<int64_t> dims, const ImageValue& x) {
  std::vector<int64_t> wanted = x.dims();
  if (dims.size() == wanted.size() && dims[0] == 1) dims.erase(dims.begin());
  wanted.erase(wanted.begin());
  return !x.is_flat() && x.arrangement.IsImages(0) && dims == wanted;
}

}  // namespace

bool NetworkBuilder::IsIds(const ValueInfo& input) const {
  const onnx_schema::TensorType& type = input.type().tensor_type();
  const int rank = type.shape().dim_size();
  if (!IsInteger(type.elem_type()) || rank < 1 || rank > 1 + kMaxSpatialAxes) return false;
  const std::vector<std::string> names = NamesOf(input.name(), graph_);
  return std::any_of(graph_.node().begin(), graph_.node().end(), [&](const Node& node) {
    return node.op_type() == "Gather" && node.input_size() > 1 &&
           std::count(names.begin(), names.end(), node.input(1)) > 0;
  });
}

absl::Status NetworkBuilder::AddIds(const ValueInfo& input) {
  const onnx_schema::Shape& shape = input.type().tensor_type().shape();
  file_batch_ = shape.dim(0).dim_value();
  batch_ = options_.batch.value_or(file_batch_ > 0 ? file_batch_ : kBatchOfAny);
  neap::Shape::Dims dims(static_cast<size_t>(shape.dim_size() - 1));
  for (int axis = 1; axis < shape.dim_size(); ++axis) {
    dims[static_cast<size_t>(axis - 1)] = options_.image.value_or(shape.dim(axis).dim_value());
  }
  const neap::Shape example(dims);
  for (const int64_t extent : example.dims()) {
    if (extent >= 1 && extent <= kMaxExtent && batch_ <= kMaxExtent) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("input '", input.name(), "' has ids of the extents ",
                     absl::StrJoin(example.dims(), "x"), ", of which each must be between 1 and ",
                     kMaxExtent, "; 0 is one that the file leaves open"));
  }
  Graph only({.batch = batch_, .dtype = options_.dtype, .layout = options_.layout});
  only.Input("input", example, DType::kInt32);
  GraphLayer source = only.layers()[0];
  ASSIGN_OR_RETURN(LayerSpec spec, source.layer.Specify({}));
  values_[input.name()] = IdsValue{.layer = source.name, .spec = spec.output};
  draft_of_[source.name] = 0;
  drafts_.push_back({.layer = std::move(source), .spec = std::move(spec), .weights = {}});
  return absl::OkStatus();
}

namespace operators {

absl::Status Gather(NodeReader& node, NetworkBuilder& network) {
  const IdsValue* const ids = node.IfIds(1);
  const int64_t axis = node.Int("axis", 0);
  if (node.IfImage(0) != nullptr && node.IsConstant(1)) return GatherOne(node, network);
  if (ids == nullptr || !node.IsConstant(0)) {
    return absl::UnimplementedError(
        "neap has this operator only for constants, for rows of a constant by ids, and for an "
        "entry of a layer's output");
  }
  ASSIGN_OR_RETURN(Weight table, node.Tensor(0, "weight"));
  const std::vector<int64_t> dims = table.dims();
  if (dims.size() != 2 || (axis != 0 && axis != -2)) {
    return absl::UnimplementedError(absl::StrCat("it takes entries along axis ", axis, " of ",
                                                 absl::StrJoin(dims, "x"),
                                                 "; rows of a matrix are needed"));
  }
  const bool has_positions = ids->spec.shape.rank() > 1;
  const ImageValue given = {.layer = ids->layer, .spec = ids->spec, .arrangement = {}};
  const Embedding layer = {.vocabulary = dims[0], .channels = dims[1]};
  return network.AddLayer(node.proto(), layer, {given}, {std::move(table)},
                          has_positions ? Form::kChannelsLast : Form::kFlat);
}

bool AddsPositions(const NodeReader& node, const ImageValue& x, const Constant& constant) {
  return (node.op() == "Add" || node.op() == "Sum") && IsPerPosition(constant.dims, x);
}

absl::Status AddPositions(const NodeReader& node, NetworkBuilder& network, const ImageValue& x,
                          Constant constant, const std::string& name) {
  const neap::Shape& shape = x.spec.shape;
  constant = InLayersOrder(constant, x.arrangement);
  constant.dims = {1, shape.c()};
  constant.dims.insert(constant.dims.end(), shape.spatial().begin(), shape.spatial().end());
  Weight weight = {.name = "weight", .tensor = std::move(constant), .value = name};
  return network.AddLayer(node.proto(), PositionEmbedding{}, {x}, {std::move(weight)});
}

}  // namespace operators
}  // namespace neap::nets

#include "neap/nets/onnx/node_writer.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/channel_slice.h"
#include "neap/layers/channel_split.h"
#include "neap/layers/dropout.h"
#include "neap/layers/join.h"
#include "neap/layers/lrn.h"
#include "neap/layers/multiply.h"
#include "neap/layers/shape/permute.h"
#include "neap/layers/shape/reshape.h"
#include "neap/nets/onnx/node_attributes.h"

namespace neap::nets {
namespace {

using onnx_schema::Node;
using onnx_schema::Tensor;

// The extents of a tensor behind those of N and C, after these.
std::vector<int64_t> WithSpatial(std::vector<int64_t> dims, const Shape& shape) {
  dims.insert(dims.end(), shape.spatial().begin(), shape.spatial().end());
  return dims;
}

const Shape& StoredShape(const ParamSpec& param) {
  return param.saved_shape.rank() > 0 ? param.saved_shape : param.tensor.shape;
}

// A value of any number of images {N, C, H, W}, or vectors {N, C}.
void Describe(const TensorSpec& spec, const std::string& name, bool is_flat,
              onnx_schema::ValueInfo& info) {
  info.set_name(name);
  onnx_schema::TensorType& type = *info.mutable_type()->mutable_tensor_type();
  type.set_elem_type(Tensor::FLOAT);
  type.mutable_shape()->add_dim()->set_dim_param("N");
  for (int axis = 1; axis < (is_flat ? 2 : spec.shape.rank()); ++axis)
    type.mutable_shape()->add_dim()->set_dim_value(spec.shape[axis]);
}

}  // namespace

absl::Status NodeWriter::WriteInput(const ResolvedLayer& feed) {
  if (IsIds(feed)) {
    onnx_schema::ValueInfo& input = *graph_.add_input();
    Describe(feed.spec.output, feed.name, false, input);
    input.mutable_type()->mutable_tensor_type()->set_elem_type(Tensor::INT64);
    return absl::OkStatus();
  }
  if (feed.spec.output.shape.spatial_axes() == 0 || feed.spec.output.dtype == DType::kInt32)
    return absl::UnimplementedError("not an image");
  Describe(feed.spec.output, feed.name, false, *graph_.add_input());
  return absl::OkStatus();
}

void NodeWriter::WriteOutput(LayerOutput output) {
  if (!outputs_.insert(network_.NameOf(output)).second) return;
  const TensorSpec& spec = network_.SpecOf(output);
  const bool is_flat = spec.shape.positions() == 1;
  const std::string name = As(is_flat, output, "scores");
  Describe(spec, name, is_flat, *graph_.add_output());
}

std::string NodeWriter::As(bool flat, LayerOutput output, const std::string& reader) {
  const std::string name = network_.NameOf(output);
  if (IsFlat(output.layer) == flat) return name;
  const std::string converted = absl::StrCat(reader, flat ? ".flatten" : ".reshape", "_", name);
  // A layer may have the name that an output has as a reader.
  if (!converted_.insert(converted).second) return converted;
  Node& node = *graph_.add_node();
  node.set_op_type(flat ? "Flatten" : "Reshape");
  node.set_name(converted);
  node.add_input(name);
  node.add_output(node.name());
  if (!flat) {
    const Shape& shape = network_.SpecOf(output).shape;
    AddIntegers("shape", WithSpatial({0, shape.c()}, shape), node);
  }
  return node.name();
}

Node& NodeWriter::AddNode(const ResolvedLayer& layer, std::string_view op, Axes axes) {
  bool flat = axes != Axes::kImages;
  if (axes == Axes::kEither) {
    flat = std::all_of(layer.inputs.begin(), layer.inputs.end(),
                       [&](LayerOutput input) { return IsFlat(input.layer); });
  }
  std::vector<std::string> inputs;
  for (const LayerOutput input : layer.inputs) inputs.push_back(As(flat, input, layer.name));
  is_flat_[layer.id.index()] = flat;
  Node& node = *graph_.add_node();
  node.set_name(layer.name);
  node.set_op_type(std::string(op));
  for (std::string& input : inputs) node.add_input(std::move(input));
  for (int i = 0; i < layer.spec.output_count(); ++i) node.add_output(OutputName(layer.name, i));
  return node;
}

Node& NodeWriter::AddBehind(const ResolvedLayer& layer, Node& before, std::string_view suffix,
                            std::string_view op) {
  before.set_name(absl::StrCat(layer.name, std::string(suffix)));
  before.set_output(0, before.name());
  Node& node = *graph_.add_node();
  node.set_name(layer.name);
  node.set_op_type(std::string(op));
  node.add_input(before.name());
  node.add_output(layer.name);
  return node;
}

absl::Status NodeWriter::AddFloats(const std::string& name, const Shape& dims, Node& node) {
  node.add_input(name);
  if (!written_.insert(name).second) return absl::OkStatus();  // layers share it
  const auto found = weights_.find(name);
  if (found == weights_.end())
    return absl::InvalidArgumentError(absl::StrCat("tensor '", name, "' is missing"));
  const std::vector<float>& values = found->second;
  if (static_cast<int64_t>(values.size()) != dims.elements()) {
    return absl::InvalidArgumentError(absl::StrCat("tensor '", name, "' has ", values.size(),
                                                   " values, but the network has ",
                                                   dims.ToString()));
  }
  Tensor& tensor = *graph_.add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(Tensor::FLOAT);
  for (const int64_t extent : dims.dims()) tensor.add_dims(extent);
  tensor.set_raw_data(values.data(), values.size() * sizeof(float));
  return absl::OkStatus();
}

void NodeWriter::AddIntegers(std::string_view what, const std::vector<int64_t>& values,
                             Node& node) {
  Tensor& tensor = *graph_.add_initializer();
  tensor.set_name(absl::StrCat(node.name(), ".", std::string(what)));
  tensor.set_data_type(Tensor::INT64);
  tensor.add_dims(static_cast<int64_t>(values.size()));
  tensor.set_raw_data(values.data(), values.size() * sizeof(int64_t));
  node.add_input(tensor.name());
}

void NodeWriter::AddNumbers(std::string_view what, const std::vector<float>& values, Node& node) {
  Tensor& tensor = *graph_.add_initializer();
  tensor.set_name(absl::StrCat(node.name(), ".", std::string(what)));
  tensor.set_data_type(Tensor::FLOAT);
  tensor.add_dims(static_cast<int64_t>(values.size()));
  tensor.set_raw_data(values.data(), values.size() * sizeof(float));
  node.add_input(tensor.name());
}

void NodeWriter::AddScalar(std::string_view what, float value, Node& node) {
  Tensor& tensor = *graph_.add_initializer();
  tensor.set_name(absl::StrCat(node.name(), ".", std::string(what)));
  tensor.set_data_type(Tensor::FLOAT);
  tensor.set_raw_data(&value, sizeof(value));
  node.add_input(tensor.name());
}

void NodeWriter::ReshapeLast(const std::string& name, const Shape& dims, Node& node) {
  Node& reshape = *graph_.add_node();
  graph_.mutable_node()->SwapElements(graph_.node_size() - 2, graph_.node_size() - 1);
  reshape.set_op_type("Reshape");
  reshape.set_name(name);
  reshape.add_input(node.input(node.input_size() - 1));
  reshape.add_output(name);
  AddIntegers("shape", {dims.dims().begin(), dims.dims().end()}, reshape);
  node.set_input(node.input_size() - 1, name);
}

std::string NodeWriter::WriteConstant(const std::string& name, int64_t count, float value) {
  Node& node = *graph_.add_node();
  node.set_op_type("Constant");
  node.set_name(name);
  node.add_output(name);
  Tensor& tensor = *AddAttribute(node, "value", onnx_schema::Attribute::TENSOR).mutable_t();
  tensor.set_data_type(Tensor::FLOAT);
  tensor.add_dims(count);
  const std::vector<float> values(static_cast<size_t>(count), value);
  tensor.set_raw_data(values.data(), values.size() * sizeof(float));
  return name;
}

absl::Status NodeWriter::AddReshaped(const ResolvedLayer& layer, size_t i, const Shape& dims,
                                     Node& node) {
  const ParamSpec& param = layer.spec.params[i];
  RETURN_IF_ERROR(AddFloats(ParamName(layer, param), StoredShape(param), node));
  if (StoredShape(param) != dims)
    ReshapeLast(absl::StrCat(layer.name, ".", param.name, ".channels"), dims, node);
  return absl::OkStatus();
}

absl::Status NodeWriter::AddWeights(const ResolvedLayer& layer, Node& node) {
  // A parameter that the layer shares is stored in its owner's shape.
  std::vector<ParamSpec> own = layer.spec.params;
  if (!layer.shared.empty()) {
    ASSIGN_OR_RETURN(LayerSpec alone, layer.layer.Specify({.inputs = network_.InputSpecs(layer),
                                                           .mode = Mode::kInference}));
    own = std::move(alone.params);
  }
  for (size_t i = 0; i < own.size(); ++i) {
    const ParamSpec& param = layer.spec.params[i];
    RETURN_IF_ERROR(AddFloats(ParamName(layer, param), StoredShape(param), node));
    if (StoredShape(param) != StoredShape(own[i]))
      ReshapeLast(absl::StrCat(layer.name, ".", param.name), StoredShape(own[i]), node);
  }
  for (const StateSpec& state : layer.spec.states) {
    RETURN_IF_ERROR(AddFloats(StateName(layer, state), state.tensor.shape, node));
  }
  return absl::OkStatus();
}

// The Transpose has the layer's name, since a reader makes the layer of it.
void NodeWriter::WriteTransposed(const ResolvedLayer& layer, std::vector<int64_t> dims,
                                 const std::vector<int64_t>& order) {
  const Shape& shape = layer.spec.output.shape;
  dims[0] = 0;  // any number of images
  Node& divided = AddNode(layer, "Reshape", Axes::kImages);
  Node& transposed = AddBehind(layer, divided, ".grouped", "Transpose");
  AddIntegers("shape", dims, divided);
  SetInts(transposed, "perm", order);
  transposed.set_output(0, absl::StrCat(layer.name, ".transposed"));
  Node& images = *graph_.add_node();
  images.set_name(absl::StrCat(layer.name, ".images"));
  images.set_op_type("Reshape");
  images.add_input(transposed.output(0));
  images.add_output(layer.name);
  AddIntegers("shape", WithSpatial({0, shape.c()}, shape), images);
}

void NodeWriter::WriteShuffle(const ResolvedLayer& layer, const ChannelShuffle& shuffle) {
  const Shape& shape = layer.spec.output.shape;
  std::vector<int64_t> order(static_cast<size_t>(shape.rank()) + 1);
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[1], order[2]);
  WriteTransposed(layer, WithSpatial({0, shuffle.groups, shape.c() / shuffle.groups}, shape),
                  order);
}

bool NodeWriter::WriteElementwise(const ResolvedLayer& layer) {
  if (layer.layer.As<Multiply>() != nullptr || layer.layer.As<Add>() != nullptr) {
    AddNode(layer, layer.layer.As<Add>() != nullptr ? "Sum" : "Mul", Axes::kEither);
    return true;
  }
  if (layer.layer.As<Concat>() != nullptr) {
    SetInt(AddNode(layer, "Concat", Axes::kEither), "axis", 1);
    return true;
  }
  if (const auto* const dropout = layer.layer.As<Dropout>(); dropout && !dropout->per_channel) {
    AddScalar("ratio", dropout->probability, AddNode(layer, "Dropout", Axes::kEither));
    return true;
  }
  if (layer.layer.As<Dropout>() != nullptr || layer.layer.As<StochasticDepth>() != nullptr) {
    AddNode(layer, "Identity", Axes::kEither);
    return true;
  }
  if (const auto* const lrn = layer.layer.As<LocalResponseNorm>()) {
    Node& node = AddNode(layer, "LRN", Axes::kImages);
    SetInt(node, "size", lrn->size);
    SetFloat(node, "alpha", lrn->alpha);
    SetFloat(node, "beta", lrn->beta);
    SetFloat(node, "bias", lrn->k);
    return true;
  }
  if (const auto* const shuffle = layer.layer.As<ChannelShuffle>()) {
    WriteShuffle(layer, *shuffle);
    return true;
  }
  if (layer.layer.As<neap::Reshape>() != nullptr) {
    // -1, and not 0, is the number of images: by that a reader knows the layer.
    const Shape& shape = layer.spec.output.shape;
    AddIntegers("shape", WithSpatial({-1, shape.c()}, shape),
                AddNode(layer, "Reshape", Axes::kImages));
    return true;
  }
  if (const auto* const permute = layer.layer.As<neap::Permute>()) {
    std::vector<int64_t> order = {0};
    order.insert(order.end(), permute->axes.begin(), permute->axes.end());
    SetInts(AddNode(layer, "Transpose", Axes::kImages), "perm", order);
    return true;
  }
  if (const auto* const split = layer.layer.As<ChannelSplit>()) {
    Node& node = AddNode(layer, "Split", Axes::kEither);
    SetInt(node, "axis", 1);
    AddIntegers("split", split->channels, node);
    return true;
  }
  if (const auto* const slice = layer.layer.As<ChannelSlice>()) {
    Node& node = AddNode(layer, "Slice", Axes::kEither);
    AddIntegers("starts", {slice->first}, node);
    AddIntegers("ends", {slice->first + slice->count}, node);
    AddIntegers("axes", {1}, node);
    return true;
  }
  return false;
}

absl::Status NodeWriter::Write(const ResolvedLayer& layer) {
  if (WritePooling(layer) || WriteBorder(layer) || WriteResized(layer) || WriteActivation(layer) ||
      WriteElementwise(layer))
    return absl::OkStatus();
  return WriteTokens(layer);
}

}  // namespace neap::nets

#include "neap/nets/onnx/node_writer.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/specify.h"
#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/channel_slice.h"
#include "neap/layers/convolution.h"
#include "neap/layers/crop.h"
#include "neap/layers/dropout.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/join.h"
#include "neap/layers/lrn.h"
#include "neap/layers/multiply.h"
#include "neap/layers/pooling.h"
#include "neap/layers/scale_shift.h"
#include "neap/layers/transposed_convolution.h"
#include "neap/layers/zero_pad.h"

namespace neap::nets {
namespace {

using onnx_schema::Attribute;
using onnx_schema::Node;
using onnx_schema::Tensor;

Attribute& AddAttribute(Node& node, std::string_view name, Attribute::Type type) {
  Attribute& attribute = *node.add_attribute();
  attribute.set_name(std::string(name));
  attribute.set_type(type);
  return attribute;
}
void SetInt(Node& node, std::string_view name, int64_t value) {
  AddAttribute(node, name, Attribute::INT).set_i(value);
}
void SetFloat(Node& node, std::string_view name, float value) {
  AddAttribute(node, name, Attribute::FLOAT).set_f(value);
}
void SetInts(Node& node, std::string_view name, const std::vector<int64_t>& values) {
  Attribute& attribute = AddAttribute(node, name, Attribute::INTS);
  for (const int64_t value : values) attribute.add_ints(value);
}
void SetPair(Node& node, std::string_view name, Extent2d value) {
  SetInts(node, name, {value.h, value.w});
}
void SetWindow(Node& node, Extent2d kernel, Extent2d stride, Extent2d padding) {
  SetPair(node, "kernel_shape", kernel);
  SetPair(node, "strides", stride);
  SetInts(node, "pads", {padding.h, padding.w, padding.h, padding.w});
}

// How ONNX states the windows of a pooling. A last window that passes the padding needs ceil_mode,
// or more padding behind the image. Without regard to the image, ceil_mode has a window more in
// ONNX where neap's would begin behind the image, and then only the padding does.
struct PoolWindows {
  Extent2d after;  // padding behind the image
  bool ceil_mode;
};

struct PoolAxis {
  int64_t size, positions, reach, stride, padding;
  // From the last position on.
  int64_t Needed() const { return (positions - 1) * stride + reach - size - padding; }
  bool IsCeiling() const {
    const int64_t slack = size + 2 * padding - reach;
    return (slack + stride - 1) / stride + 1 == positions;
  }
};

template <typename Pool>
PoolWindows WindowsOf(const Pool& pool, const Shape& x, const Shape& y) {
  const Extent2d reach = Window{.kernel = pool.kernel, .dilation = pool.dilation}.reach();
  const PoolAxis rows = {x.h(), y.h(), reach.h, pool.stride.h, pool.padding.h};
  const PoolAxis columns = {x.w(), y.w(), reach.w, pool.stride.w, pool.padding.w};
  if (pool.ceil_mode && rows.IsCeiling() && columns.IsCeiling()) return {pool.padding, true};
  return {{std::max(pool.padding.h, rows.Needed()), std::max(pool.padding.w, columns.Needed())},
          false};
}

template <typename Pool>
void SetPool(Node& node, const Pool& pool, const PoolWindows& windows) {
  SetPair(node, "kernel_shape", pool.kernel);
  SetPair(node, "strides", pool.stride);
  SetInts(node, "pads", {pool.padding.h, pool.padding.w, windows.after.h, windows.after.w});
  if (windows.ceil_mode) SetInt(node, "ceil_mode", 1);
  if (pool.dilation != Extent2d(1)) SetPair(node, "dilations", pool.dilation);
}

// ONNX's name of a layer that has no fields.
std::string_view PlainOperator(const Layer& layer) {
  if (layer.As<Relu>() != nullptr) return "Relu";
  if (layer.As<Sigmoid>() != nullptr) return "Sigmoid";
  if (layer.As<Tanh>() != nullptr) return "Tanh";
  if (layer.As<HardSwish>() != nullptr) return "HardSwish";
  if (layer.As<Multiply>() != nullptr) return "Mul";
  if (layer.As<Add>() != nullptr) return "Sum";
  return "";
}

// A value of any number of images {N, C, H, W}, or vectors {N, C}.
void Describe(const ResolvedLayer& layer, const std::string& name, bool is_flat,
              onnx_schema::ValueInfo& info) {
  info.set_name(name);
  onnx_schema::TensorType& type = *info.mutable_type()->mutable_tensor_type();
  type.set_elem_type(Tensor::FLOAT);
  type.mutable_shape()->add_dim()->set_dim_param("N");
  for (int axis = 1; axis < (is_flat ? 2 : 4); ++axis)
    type.mutable_shape()->add_dim()->set_dim_value(layer.spec.output.shape[axis]);
}

}  // namespace

absl::Status NodeWriter::WriteInput(const ResolvedLayer& feed) {
  if (feed.spec.output.shape.rank() != 4 || feed.spec.output.dtype == DType::kInt32)
    return absl::UnimplementedError("not an image");
  Describe(feed, feed.name, false, *graph_.add_input());
  return absl::OkStatus();
}

void NodeWriter::WriteOutput(LayerId output) {
  const ResolvedLayer& layer = network_.layers[output.index()];
  if (!outputs_.insert(layer.name).second) return;
  const Shape& shape = layer.spec.output.shape;
  const bool is_flat = shape.h() * shape.w() == 1;
  const std::string name = As(is_flat, output, "scores");
  Describe(layer, name, is_flat, *graph_.add_output());
}

std::string NodeWriter::As(bool flat, LayerId id, const std::string& reader) {
  const ResolvedLayer& layer = network_.layers[id.index()];
  if (IsFlat(id) == flat) return layer.name;
  Node& node = *graph_.add_node();
  node.set_op_type(flat ? "Flatten" : "Reshape");
  node.set_name(absl::StrCat(reader, flat ? ".flatten" : ".reshape", "_", layer.name));
  node.add_input(layer.name);
  node.add_output(node.name());
  if (!flat) {
    const Shape& shape = layer.spec.output.shape;
    AddIntegers("shape", {0, shape.c(), shape.h(), shape.w()}, node);
  }
  return node.name();
}

Node& NodeWriter::AddNode(const ResolvedLayer& layer, std::string_view op, Axes axes) {
  bool flat = axes != Axes::kImages;
  if (axes == Axes::kEither) {
    flat = std::all_of(layer.inputs.begin(), layer.inputs.end(),
                       [&](LayerId input) { return IsFlat(input); });
  }
  std::vector<std::string> inputs;
  for (const LayerId input : layer.inputs) inputs.push_back(As(flat, input, layer.name));
  is_flat_[layer.id.index()] = flat;
  Node& node = *graph_.add_node();
  node.set_name(layer.name);
  node.set_op_type(std::string(op));
  for (std::string& input : inputs) node.add_input(std::move(input));
  node.add_output(layer.name);
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

void NodeWriter::AddScalar(std::string_view what, float value, Node& node) {
  Tensor& tensor = *graph_.add_initializer();
  tensor.set_name(absl::StrCat(node.name(), ".", std::string(what)));
  tensor.set_data_type(Tensor::FLOAT);
  tensor.set_raw_data(&value, sizeof(value));
  node.add_input(tensor.name());
}

absl::Status NodeWriter::AddWeights(const ResolvedLayer& layer, Node& node) {
  for (const ParamSpec& param : layer.spec.params) {
    const bool has_own = param.saved_shape.rank() > 0;
    RETURN_IF_ERROR(
        AddFloats(ParamName(layer, param), has_own ? param.saved_shape : param.tensor.shape, node));
  }
  for (const StateSpec& state : layer.spec.states) {
    RETURN_IF_ERROR(AddFloats(StateName(layer, state), state.tensor.shape, node));
  }
  return absl::OkStatus();
}

absl::Status NodeWriter::WriteLinear(const ResolvedLayer& layer) {
  if (const auto* const conv = layer.layer.As<Convolution>()) {
    Node& node = AddNode(layer, "Conv", Axes::kImages);
    SetWindow(node, conv->kernel, conv->stride, conv->padding);
    SetPair(node, "dilations", conv->dilation);
    SetInt(node, "group", conv->groups);
    return AddWeights(layer, node);
  }
  if (const auto* const transposed = layer.layer.As<TransposedConvolution>()) {
    Node& node = AddNode(layer, "ConvTranspose", Axes::kImages);
    SetWindow(node, transposed->kernel, transposed->stride, transposed->padding);
    return AddWeights(layer, node);
  }
  if (layer.layer.As<FullyConnected>() != nullptr) {
    Node& node = AddNode(layer, "Gemm", Axes::kVectors);
    SetInt(node, "transB", 1);
    return AddWeights(layer, node);
  }
  if (const auto* const norm = layer.layer.As<BatchNorm>()) {
    Node& node = AddNode(layer, "BatchNormalization", Axes::kEither);
    SetFloat(node, "epsilon", norm->epsilon);
    SetFloat(node, "momentum", 1 - norm->momentum);
    return AddWeights(layer, node);
  }
  return absl::UnimplementedError("no operator");
}

void NodeWriter::WriteAverage(const ResolvedLayer& layer, const AveragePool& pool) {
  const Shape& x = network_.layers[layer.inputs[0].index()].spec.output.shape;
  PoolWindows windows = WindowsOf(pool, x, layer.spec.output.shape);
  AveragePool written = pool;
  Node* node = &AddNode(layer, "AveragePool", Axes::kImages);
  if (pool.count_padding && windows.after != pool.padding) {
    // More padding would count, too. So the image has the padding, and what is behind it counts
    // not.
    const auto [h, w] = pool.padding;
    Node& pad = *node;
    pad.set_op_type("Pad");
    node = &AddBehind(layer, pad, ".pad", "AveragePool");
    AddIntegers("pads", {0, 0, h, w, 0, 0, h, w}, pad);
    windows.after = {windows.after.h - h, windows.after.w - w};
    written.padding = 0;
    written.count_padding = false;
  }
  SetPool(*node, written, windows);
  SetInt(*node, "count_include_pad", written.count_padding ? 1 : 0);
  if (pool.dilation != Extent2d(1)) opset_ = kOpsetOfDilatedAverages;
}

bool NodeWriter::WritePooling(const ResolvedLayer& layer) {
  if (const auto* const max = layer.layer.As<MaxPool>()) {
    const Shape& x = network_.layers[layer.inputs[0].index()].spec.output.shape;
    SetPool(AddNode(layer, "MaxPool", Axes::kImages), *max,
            WindowsOf(*max, x, layer.spec.output.shape));
    return true;
  }
  if (const auto* const average = layer.layer.As<AveragePool>()) {
    WriteAverage(layer, *average);
    return true;
  }
  if (layer.layer.As<GlobalAveragePool>() != nullptr) {
    AddNode(layer, "GlobalAveragePool", Axes::kImages);
    return true;
  }
  return false;
}

// A product, then a sum, of which one that changes nothing is left out.
void NodeWriter::WriteScaleShift(const ResolvedLayer& layer, const ScaleShift& linear) {
  const bool multiplies = linear.scale != 1;
  Node& first = AddNode(layer, multiplies ? "Mul" : "Add", Axes::kEither);
  if (!multiplies) return AddScalar("shift", linear.shift, first);
  Node* const sum = linear.shift == 0 ? nullptr : &AddBehind(layer, first, ".scale", "Add");
  AddScalar("factor", linear.scale, first);
  if (sum != nullptr) AddScalar("shift", linear.shift, *sum);
}

bool NodeWriter::WriteActivation(const ResolvedLayer& layer) {
  if (const auto* const linear = layer.layer.As<ScaleShift>()) {
    WriteScaleShift(layer, *linear);
    return true;
  }
  if (const auto* const leaky = layer.layer.As<LeakyRelu>()) {
    SetFloat(AddNode(layer, "LeakyRelu", Axes::kEither), "alpha", leaky->negative_slope);
    return true;
  }
  if (const auto* const clip = layer.layer.As<Clip>()) {
    Node& node = AddNode(layer, "Clip", Axes::kEither);
    AddScalar("min", clip->low, node);
    AddScalar("max", clip->high, node);
    return true;
  }
  if (layer.layer.As<HardSigmoid>() != nullptr) {
    Node& node = AddNode(layer, "HardSigmoid", Axes::kEither);
    SetFloat(node, "alpha", 1.0F / 6);
    SetFloat(node, "beta", 0.5F);
    return true;
  }
  if (layer.layer.As<Silu>() == nullptr) return false;
  // x * sigmoid(x): ONNX has an operator for it only in later opsets.
  Node& sigmoid = AddNode(layer, "Sigmoid", Axes::kEither);
  sigmoid.set_name(absl::StrCat(layer.name, ".sigmoid"));
  sigmoid.set_output(0, sigmoid.name());
  Node& product = AddNode(layer, "Mul", Axes::kEither);
  product.add_input(sigmoid.name());
  return true;
}

// The Transpose has the layer's name, since a reader makes the layer of it.
void NodeWriter::WriteShuffle(const ResolvedLayer& layer, const ChannelShuffle& shuffle) {
  const Shape& shape = layer.spec.output.shape;
  Node& grouped = AddNode(layer, "Reshape", Axes::kImages);
  Node& transposed = AddBehind(layer, grouped, ".grouped", "Transpose");
  AddIntegers("shape", {0, shuffle.groups, shape.c() / shuffle.groups, shape.h(), shape.w()},
              grouped);
  SetInts(transposed, "perm", {0, 2, 1, 3, 4});
  transposed.set_output(0, absl::StrCat(layer.name, ".transposed"));
  Node& images = *graph_.add_node();
  images.set_name(absl::StrCat(layer.name, ".images"));
  images.set_op_type("Reshape");
  images.add_input(transposed.output(0));
  images.add_output(layer.name);
  AddIntegers("shape", {0, shape.c(), shape.h(), shape.w()}, images);
}

bool NodeWriter::WriteElementwise(const ResolvedLayer& layer) {
  if (const std::string_view op = PlainOperator(layer.layer); !op.empty()) {
    AddNode(layer, op, Axes::kEither);
    return true;
  }
  if (layer.layer.As<Concat>() != nullptr) {
    SetInt(AddNode(layer, "Concat", Axes::kEither), "axis", 1);
    return true;
  }
  if (const auto* const dropout = layer.layer.As<Dropout>()) {
    AddScalar("ratio", dropout->probability, AddNode(layer, "Dropout", Axes::kEither));
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
  if (const auto* const crop = layer.layer.As<Crop>()) {
    Node& node = AddNode(layer, "Slice", Axes::kImages);
    AddIntegers("starts", {crop->offset.h, crop->offset.w}, node);
    AddIntegers("ends", {crop->offset.h + crop->size.h, crop->offset.w + crop->size.w}, node);
    AddIntegers("axes", {2, 3}, node);
    return true;
  }
  if (const auto* const shuffle = layer.layer.As<ChannelShuffle>()) {
    WriteShuffle(layer, *shuffle);
    return true;
  }
  if (const auto* const slice = layer.layer.As<ChannelSlice>()) {
    Node& node = AddNode(layer, "Slice", Axes::kEither);
    AddIntegers("starts", {slice->first}, node);
    AddIntegers("ends", {slice->first + slice->count}, node);
    AddIntegers("axes", {1}, node);
    return true;
  }
  if (const auto* const pad = layer.layer.As<ZeroPad>()) {
    Node& node = AddNode(layer, "Pad", Axes::kImages);
    AddIntegers("pads", {0, 0, pad->top, pad->left, 0, 0, pad->bottom, pad->right}, node);
    return true;
  }
  return false;
}

absl::Status NodeWriter::Write(const ResolvedLayer& layer) {
  if (WritePooling(layer) || WriteActivation(layer) || WriteElementwise(layer))
    return absl::OkStatus();
  return WriteLinear(layer);
}

}  // namespace neap::nets

// Writes norms.
#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/norm/group_norm.h"
#include "neap/layers/norm/layer_norm.h"
#include "neap/layers/norm/softmax.h"
#include "neap/nets/onnx/network_builder.h"
#include "neap/nets/onnx/node_attributes.h"
#include "neap/nets/onnx/node_writer.h"

namespace neap::nets {
namespace {

using onnx_schema::Node;

std::vector<int64_t> DimsOfAny(const Shape& images) {
  std::vector<int64_t> dims(images.dims().begin(), images.dims().end());
  dims[0] = 0;  // copied
  return dims;
}

}  // namespace

Shape PerChannelDims(const Shape& images) {
  Shape::Dims dims(static_cast<size_t>(images.rank()) - 1, 1);
  dims[0] = images.c();
  return Shape(std::move(dims));
}

absl::Status NodeWriter::WriteNorm(const ResolvedLayer& layer) {
  if (const auto* const softmax = layer.layer.As<Softmax>()) {
    const bool is_of_channels = softmax->axis == 1;
    SetInt(AddNode(layer, softmax->logarithm ? "LogSoftmax" : "Softmax",
                   is_of_channels ? Axes::kEither : Axes::kImages),
           "axis", softmax->axis);
    return absl::OkStatus();
  }
  if (const auto* const norm = layer.layer.As<BatchNorm>()) {
    Node& node = AddNode(layer, "BatchNormalization", Axes::kEither);
    SetFloat(node, "epsilon", norm->epsilon);
    SetFloat(node, "momentum", 1 - norm->momentum);
    return AddWeights(layer, node);
  }
  if (const auto* const group = layer.layer.As<GroupNorm>()) return WriteGroupNorm(layer, *group);
  if (const auto* const instance = layer.layer.As<InstanceNorm>())
    return WriteInstanceNorm(layer, *instance);
  if (const auto* const norm = layer.layer.As<LayerNorm>()) return WriteLayerNorm(layer, *norm);
  return absl::UnimplementedError("no operator");
}

absl::Status NodeWriter::WriteInstanceNorm(const ResolvedLayer& layer, const InstanceNorm& norm) {
  const int64_t channels = layer.spec.output.shape.c();
  std::string ones, zeros;  // in place of parameters
  if (!norm.affine) ones = WriteConstant(absl::StrCat(layer.name, ".ones"), channels, 1);
  if (layer.spec.params.size() < 2)
    zeros = WriteConstant(absl::StrCat(layer.name, ".zeros"), channels, 0);
  Node& node = AddNode(layer, "InstanceNormalization", Axes::kImages);
  SetFloat(node, "epsilon", norm.epsilon);
  if (!ones.empty()) node.add_input(ones);
  RETURN_IF_ERROR(AddWeights(layer, node));
  if (!zeros.empty()) node.add_input(zeros);
  return absl::OkStatus();
}

// An InstanceNormalization of groups as if each were a channel, which has the layer's name, since a
// reader makes the layer of it, and the parameters behind it. Opset 17 has no other operator for
// it.
absl::Status NodeWriter::WriteGroupNorm(const ResolvedLayer& layer, const GroupNorm& norm) {
  const Shape& shape = layer.spec.output.shape;
  const std::string ones = WriteConstant(absl::StrCat(layer.name, ".ones"), norm.groups, 1);
  const std::string zeros = WriteConstant(absl::StrCat(layer.name, ".zeros"), norm.groups, 0);
  Node& grouped = AddNode(layer, "Reshape", Axes::kImages);
  Node& node = AddBehind(layer, grouped, ".grouped", "InstanceNormalization");
  // The groups of a sequence that are its channels are told from the sequence by another axis.
  std::vector<int64_t> joined = {0, norm.groups, -1};
  if (norm.groups == shape.c() && shape.rank() == std::ssize(joined)) joined.push_back(1);
  AddIntegers("shape", joined, grouped);
  node.add_input(ones);
  node.add_input(zeros);
  SetFloat(node, "epsilon", norm.epsilon);
  node.set_output(0, absl::StrCat(layer.name, ".normalised"));
  const auto add_behind = [&](std::string_view suffix, std::string_view op, bool is_last) -> Node& {
    const std::string before = graph_.node(graph_.node_size() - 1).output(0);
    Node& behind = *graph_.add_node();
    behind.set_name(absl::StrCat(layer.name, std::string(suffix)));
    behind.set_op_type(std::string(op));
    behind.add_input(before);
    behind.add_output(is_last ? layer.name : behind.name());
    return behind;
  };
  Node& images = add_behind(".images", "Reshape", !norm.affine);
  AddIntegers("shape", DimsOfAny(shape), images);
  const size_t params = layer.spec.params.size();
  for (size_t i = 0; i < params; ++i) {
    const bool is_last = i + 1 == params;
    Node& behind =
        i == 0 ? add_behind(".scaled", "Mul", is_last) : add_behind(".shifted", "Add", is_last);
    RETURN_IF_ERROR(AddReshaped(layer, i, PerChannelDims(shape), behind));
  }
  return absl::OkStatus();
}

// Of images, between transposes that make the channels the last axis.
absl::Status NodeWriter::WriteLayerNorm(const ResolvedLayer& layer, const LayerNorm& norm) {
  const Shape& shape = layer.spec.output.shape;
  std::string ones;
  if (!norm.affine) ones = WriteConstant(absl::StrCat(layer.name, ".ones"), shape.c(), 1);
  const auto set_fields = [&](Node& node) {
    SetInt(node, "axis", -1);
    SetFloat(node, "epsilon", norm.epsilon);
    if (norm.affine) return AddWeights(layer, node);
    node.add_input(ones);
    return absl::OkStatus();
  };
  if (IsFlat(layer.inputs[0].layer))
    return set_fields(AddNode(layer, "LayerNormalization", Axes::kVectors));
  Node& last = AddNode(layer, "Transpose", Axes::kImages);
  SetInts(last, "perm", ChannelOrder(shape.rank(), /*to_last=*/true));
  Node& node = AddBehind(layer, last, ".channels_last", "LayerNormalization");
  RETURN_IF_ERROR(set_fields(node));
  node.set_output(0, absl::StrCat(layer.name, ".normalised"));
  Node& images = *graph_.add_node();
  images.set_name(absl::StrCat(layer.name, ".images"));
  images.set_op_type("Transpose");
  images.add_input(node.output(0));
  images.add_output(layer.name);
  SetInts(images, "perm", ChannelOrder(shape.rank(), /*to_last=*/false));
  return absl::OkStatus();
}

}  // namespace neap::nets

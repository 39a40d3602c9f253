// One node of an ONNX graph, as an operator reads it: its inputs and attributes by what they must
// be, with the errors that name what they are instead.
//
// Every attribute that the node has must be asked for, or Unasked() names it, because an attribute
// that was ignored might change the result.
//
//   NodeReader node(proto, network);
//   ASSIGN_OR_RETURN(const ImageValue x, node.Image(0));
//   const std::vector<int64_t> strides = node.Ints("strides", {1, 1});
//   RETURN_IF_ERROR(node.Attributes());  // an attribute of another type
//
// *Errors*: UNIMPLEMENTED for what neap does not support, INVALID_ARGUMENT for what no ONNX file
// may have. *Ownership*: borrows both arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/nets/onnx/network_builder.h"
#include "onnx_schema.pb.h"

namespace neap::nets {

class NodeReader {
 public:
  NodeReader(const onnx_schema::Node& node, NetworkBuilder& network)
      : node_(node), network_(network) {}

  const onnx_schema::Node& proto() const { return node_; }
  std::string_view op() const { return node_.op_type(); }
  int input_count() const { return node_.input_size(); }
  bool HasInput(int i) const { return i >= 0 && i < node_.input_size() && !node_.input(i).empty(); }
  // Whether an output after the first is read by a node.
  bool HasSecondReader() const;
  // Whether every input is a constant, and there is one.
  bool ReadsConstants() const;
  bool ReadsUnsupported() const;
  // Whether an input is a guess (ImageValue::is_guess).
  bool ReadsGuess() const;
  bool ReadsFormula() const;
  bool IsConstant(int i) const;

  // A layer's output as images or flat: layers give it other axes if it has any others.
  absl::StatusOr<ImageValue> Image(int i) const;
  // A layer's output with any axes in the graph.
  absl::StatusOr<ImageValue> ImageOfAnyLayout(int i) const;
  // As Image(), for an operator that can add the zeros of a Pad itself (ImageValue::unpadded).
  absl::StatusOr<ImageValue> PaddedImage(int i) const;
  // As ImageOfAnyLayout(), for a step of a formula (ImageValue::formula).
  absl::StatusOr<ImageValue> FormulaImage(int i) const;
  // All inputs, at least one, with the same axes: layers give some of them others if they differ.
  absl::StatusOr<std::vector<ImageValue>> AllImages() const;
  // Null unless the input is a layer's output.
  const ImageValue* IfImage(int i) const;
  // Null unless the input is the network's, of ids.
  const IdsValue* IfIds(int i) const;
  // Null unless the input is what a node computes on the way to a layer norm.
  const NormPart* IfNormPart(int i) const;
  // Null unless the input is what a node computes on the way to an attention.
  const AttentionPart* IfAttentionPart(int i) const;
  // Absent unless the input is a tensor of the file.
  std::optional<Stored> IfStored(int i) const;
  // A constant, for the layer's parameter or state `name`.
  absl::StatusOr<Weight> Tensor(int i, std::string name) const;
  absl::StatusOr<neap::nets::Constant> Constant(int i) const;
  // The same with one entry along the first axis if that is N of x, and the constant has the same
  // for every image.
  absl::StatusOr<neap::nets::Constant> ConstantForImages(int i, const ImageValue& x) const;
  // A constant with one element; `absent` without the input.
  absl::StatusOr<double> Scalar(int i, double absent) const;
  // The bounds of a Clip, {lowest, highest}.
  absl::StatusOr<std::pair<double, double>> Bounds();

  // `absent` without the attribute, and where it has another type: Attributes() is an error then.
  int64_t Int(std::string_view name, int64_t absent);
  float Float(std::string_view name, float absent);
  std::string String(std::string_view name, std::string_view absent);
  std::vector<int64_t> Ints(std::string_view name, std::vector<int64_t> absent);
  std::vector<float> Floats(std::string_view name, std::vector<float> absent);
  const onnx_schema::Tensor* TensorAttribute(std::string_view name);
  absl::StatusOr<neap::nets::Constant> ConstantAttribute(std::string_view name,
                                                         neap::nets::Constant absent);
  bool HasAttribute(std::string_view name) const;
  absl::Status Attributes() const { return wrong_attribute_; }
  // UNIMPLEMENTED for an attribute that was not asked for.
  absl::Status Unasked() const;

  // A list of integers that is an attribute in some versions of the operator and an input in
  // others. Empty without both.
  absl::StatusOr<std::vector<int64_t>> IntsOrInput(std::string_view name, int i);

 private:
  const Value* InputValue(int i) const;
  // A layer's output, perhaps a step of a formula, or with the zeros of a Pad.
  absl::StatusOr<ImageValue> AnyImage(int i) const;
  // The same without a formula: layers compute that of the input, if there are layers that do.
  absl::StatusOr<ImageValue> ComputedImage(int i) const;
  const onnx_schema::Attribute* Ask(std::string_view name, onnx_schema::Attribute::Type type);
  // "its input 1 ('x')"
  std::string Input(int i) const;

  const onnx_schema::Node& node_;
  NetworkBuilder& network_;
  absl::flat_hash_set<std::string> asked_;
  absl::Status wrong_attribute_;
};

// Nearest integer, at most 2^62 in size.
int64_t ToInteger(double value);
std::vector<int64_t> ToIntegers(const Constant& constant);

}  // namespace neap::nets

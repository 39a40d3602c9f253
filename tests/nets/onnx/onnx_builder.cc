#include "tests/nets/onnx/onnx_builder.h"

#include "absl/strings/str_cat.h"

namespace neap::testing {

using onnx_schema::Attribute;

namespace {

struct SetValue {
  Attribute& attribute;
  void operator()(int64_t value) const {
    attribute.set_type(Attribute::INT);
    attribute.set_i(value);
  }
  void operator()(float value) const {
    attribute.set_type(Attribute::FLOAT);
    attribute.set_f(value);
  }
  void operator()(const std::string& value) const {
    attribute.set_type(Attribute::STRING);
    attribute.set_s(value);
  }
  void operator()(const Ints& value) const {
    attribute.set_type(Attribute::INTS);
    for (const int64_t element : value) attribute.add_ints(element);
  }
};

}  // namespace

int64_t Elements(const Ints& dims) {
  int64_t count = 1;
  for (const int64_t extent : dims) count *= extent;
  return count;
}

OnnxBuilder::OnnxBuilder(const Ints& input, uint64_t seed) : state_(seed) {
  model_.set_ir_version(8);
  onnx_schema::OperatorSet& opset = *model_.add_opset_import();
  opset.set_domain("");
  opset.set_version(17);
  onnx_schema::ValueInfo& x = *graph().add_input();
  x.set_name("x");
  onnx_schema::TensorType& type = *x.mutable_type()->mutable_tensor_type();
  type.set_elem_type(onnx_schema::Tensor::FLOAT);
  for (const int64_t extent : input) {
    onnx_schema::Shape::Dimension& dim = *type.mutable_shape()->add_dim();
    if (extent > 0) {
      dim.set_dim_value(extent);
    } else {
      dim.set_dim_param("any");
    }
  }
}

std::string OnnxBuilder::Node(const std::string& op, const std::vector<std::string>& inputs,
                              const Attributes& attributes) {
  onnx_schema::Node& node = *graph().add_node();
  node.set_op_type(op);
  node.set_name(absl::StrCat(op, "_", graph().node_size()));
  for (const std::string& input : inputs) node.add_input(input);
  node.add_output(absl::StrCat("value", graph().node_size()));
  for (const auto& [name, value] : attributes) {
    Attribute& attribute = *node.add_attribute();
    attribute.set_name(name);
    std::visit(SetValue{attribute}, value);
  }
  return node.output(0);
}

std::string OnnxBuilder::Floats(const std::string& name, const Ints& dims,
                                const std::vector<float>& values) {
  onnx_schema::Tensor& tensor = *graph().add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(onnx_schema::Tensor::FLOAT);
  for (const int64_t extent : dims) tensor.add_dims(extent);
  tensor.set_raw_data(values.data(), values.size() * sizeof(float));
  return name;
}

std::string OnnxBuilder::Integers(const std::string& name, const Ints& values) {
  onnx_schema::Tensor& tensor = *graph().add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(onnx_schema::Tensor::INT64);
  tensor.add_dims(static_cast<int64_t>(values.size()));
  for (const int64_t value : values) tensor.add_int64_data(value);
  return name;
}

float OnnxBuilder::NextRandom() {
  state_ = state_ * 6364136223846793005U + 1442695040888963407U;
  return static_cast<float>(state_ >> 40) / static_cast<float>(1 << 24);
}

std::string OnnxBuilder::Random(const std::string& name, const Ints& dims) {
  std::vector<float> values(static_cast<size_t>(Elements(dims)));
  for (float& value : values) value = 2 * NextRandom() - 1;
  return Floats(name, dims, values);
}

std::string OnnxBuilder::RandomPositive(const std::string& name, const Ints& dims) {
  std::vector<float> values(static_cast<size_t>(Elements(dims)));
  for (float& value : values) value = NextRandom() + 0.5F;
  return Floats(name, dims, values);
}

void OnnxBuilder::Output(const std::string& value) { graph().add_output()->set_name(value); }

void OnnxBuilder::EndWithClasses(const std::string& value, int64_t inputs) {
  const std::string flat = Node("Flatten", {value});
  Output(Node("Gemm", {flat, Random("classes.weight", {inputs, 5}), Random("classes.bias", {5})}));
}

std::string OnnxBuilder::Write(const ScratchDirectory& directory, const std::string& name) const {
  std::string path = directory.File(name);
  WriteText(path, model_.SerializeAsString());
  return path;
}

}  // namespace neap::testing

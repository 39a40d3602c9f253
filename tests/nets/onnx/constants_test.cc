// Constants that nodes compute, and those that layers take as their weights.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "neap/core/graph/graph.h"
#include "neap/layers/scale_shift.h"
#include "neap/layers/target_loss.h"
#include "neap/nets/onnx/onnx_file.h"
#include "tests/nets/onnx/onnx_builder.h"
#include "tests/nets/onnx/onnx_checks.h"
#include "tests/scratch_directory.h"

namespace neap::testing {
namespace {

using nets::OnnxModel;
using nets::ReadOnnx;
using DataType = onnx_schema::Tensor;

OnnxModel Read(const OnnxBuilder& model) {
  const ScratchDirectory directory;
  absl::StatusOr<OnnxModel> read =
      ReadOnnx(model.Write(directory), {.batch = 2, .loss = MeanSquaredError{}});
  REQUIRE_MESSAGE(read.ok(), read.status().ToString());
  return *std::move(read);
}

std::vector<std::string> TypesOf(const OnnxModel& model) {
  std::vector<std::string> types;
  for (const GraphLayer& layer : model.graph.layers()) types.emplace_back(layer.layer.type());
  return {types.begin() + 1, types.end() - 2};  // without the images, the targets and the loss
}

// The values that a node computes of constants, as the bias of a network.
std::vector<float> Computed(const std::string& op, const std::vector<std::vector<float>>& inputs,
                            const Attributes& attributes = {}) {
  OnnxBuilder model({1, 3});
  std::vector<std::string> names;
  for (const std::vector<float>& values : inputs) {
    names.push_back(model.Floats("c" + std::to_string(names.size()), {std::ssize(values)}, values));
  }
  std::string constant = model.Node(op, names, attributes);
  if (op == "Cast") constant = model.Node("Cast", {constant}, {{"to", int64_t{1}}});
  model.Output(model.Node("Gemm", {"x", model.Random("w", {3, std::ssize(inputs[0])}), constant}));
  return Read(model).weights.at("Gemm_" + std::to_string(model.graph().node_size()) + ".bias");
}

std::vector<float> CastTo(int64_t type, const std::vector<float>& values) {
  return Computed("Cast", {values}, {{"to", type}});
}

// An operator that changes nothing, between a convolution and what is added to it.
std::string Alias(OnnxBuilder& model, const std::string& op, const std::string& x) {
  if (op == "Pad") return model.Node(op, {x, model.Integers("pads", {0, 0, 0, 0, 0, 0, 0, 0})});
  if (op == "AveragePool") return model.Node(op, {x}, {{"kernel_shape", Ints{1, 1}}});
  if (op == "Cast") return model.Node(op, {x}, {{"to", int64_t{1}}});
  if (op == "Transpose") return model.Node(op, {x}, {{"perm", Ints{0, 1, 2, 3}}});
  if (op == "Split") return model.Node(op, {x}, {{"axis", int64_t{1}}});
  return model.Node(op, {x});
}

TEST_CASE("a constant that is added behind an alias is no bias of a convolution with readers") {
  for (const char* const op :
       {"Identity", "Cast", "Sum", "AveragePool", "Pad", "Transpose", "Split", "Dropout"}) {
    CAPTURE(op);
    for (const bool has_reader : {true, false}) {
      OnnxBuilder model({1, 3, 4, 4});
      const std::string conv = model.Node("Conv", {"x", model.Random("w", {5, 3, 1, 1})});
      const std::string same = Alias(model, op, conv);
      std::string sum = model.Node("Add", {same, model.Random("b", {5, 1, 1})});
      if (has_reader) sum = model.Node("Add", {sum, model.Node("Relu", {conv})});
      model.Output(sum);
      CheckComputes(model, {1, 3, 4, 4}, MeanSquaredError{});
      if (!has_reader && op != std::string("Dropout"))
        CHECK(TypesOf(Read(model)) == std::vector<std::string>{"convolution"});
    }
  }
}

TEST_CASE("vectors behind a flatten, and the output itself, are readers of a layer, too") {
  OnnxBuilder model({1, 6});
  const std::string product = model.Node("MatMul", {"x", model.Random("w", {6, 4})});
  const std::string same = model.Node("Flatten", {product});
  const std::string sum = model.Node("Add", {same, model.Random("b", {4})});
  model.Output(model.Node("Mul", {sum, model.Node("Tanh", {product})}));
  CheckComputes(model, {1, 6}, MeanSquaredError{});
}

TEST_CASE("constants that are added one after the other become one bias") {
  OnnxBuilder model({1, 3, 4, 4});
  std::string x =
      model.Node("Conv", {"x", model.Random("w", {5, 3, 1, 1}), model.Random("b", {5})});
  x = model.Node("Add", {x, model.Random("c", {1, 5, 1, 1})});
  x = model.Node("Sub", {x, model.Random("d", {5, 1, 1})});
  model.Output(x);
  CheckComputes(model, {1, 3, 4, 4}, MeanSquaredError{});
  CHECK(TypesOf(Read(model)) == std::vector<std::string>{"convolution"});
}

TEST_CASE("images are normalised by one layer, which has the name that its scale says") {
  OnnxBuilder model({1, 3, 4, 4});
  std::string x = model.Node("Sub", {"x", model.Random("mean", {1, 3, 1, 1})});
  x = model.Node("Div", {x, model.RandomPositive("deviation", {1, 3, 1, 1})});
  model.Output(x);
  CheckComputes(model, {1, 3, 4, 4}, MeanSquaredError{});
  CHECK(TypesOf(Read(model)) == std::vector<std::string>{"scale_shift"});
  OnnxBuilder scaled({1, 3, 4, 4});
  scaled.Output(scaled.Node("Mul", {"x", scaled.Random("block.0.layer_scale", {3, 1, 1})}));
  CheckComputes(scaled, {1, 3, 4, 4}, MeanSquaredError{});
  const OnnxModel read = Read(scaled);
  CHECK(read.graph.layers()[1].layer == Layer(ScaleShift{.learns_scale = true}));
  CHECK(read.weights.contains("block.0.layer_scale"));
}

TEST_CASE("a layer multiplies by a number, or adds one, on either side of each operator") {
  for (const char* const op : {"Add", "Sub", "Mul", "Div"}) {
    for (const bool swapped : {false, true}) {
      for (const Ints& dims : {Ints{}, Ints{1}, Ints{1, 1, 1, 1}, Ints{3, 1, 1}}) {
        if (op == std::string("Div") && swapped) continue;
        CAPTURE(op);
        CAPTURE(swapped);
        OnnxBuilder model({1, 3, 4, 4});
        const std::string constant = model.RandomPositive("c", dims);
        const std::string relu = model.Node("Relu", {"x"});
        model.Output(swapped ? model.Node(op, {constant, relu}) : model.Node(op, {relu, constant}));
        CheckComputes(model, {1, 3, 4, 4}, MeanSquaredError{});
      }
    }
  }
  OnnxBuilder model({1, 3, 4, 4});
  const std::string scaled = model.Node("Mul", {"x", model.Scalar("a", 3)});
  const std::string shifted = model.Node("Add", {scaled, model.Scalar("b", -0.5F)});
  model.Output(model.Node("Mul", {model.Node("Sub", {shifted, scaled}), shifted}));
  CheckComputes(model, {1, 3, 4, 4}, MeanSquaredError{});
}

TEST_CASE("the C of a Gemm is a bias if it is the same for all images") {
  for (const Ints& dims : {Ints{5}, Ints{1, 5}}) {
    OnnxBuilder model({1, 3});
    model.Output(model.Node("Gemm", {"x", model.Random("w", {3, 5}), model.Random("c", dims)}));
    CheckComputes(model, {1, 3}, MeanSquaredError{});
  }
  OnnxBuilder single({1, 3});
  single.Output(single.Node("Gemm", {"x", single.Random("w", {3, 5}), single.Scalar("c", 3)},
                            {{"beta", -2.0F}}));
  CHECK(Read(single).weights.at("Gemm_1.bias") == std::vector<float>(5, -6));
  for (const Ints& dims : {Ints{5, 1}, Ints{5, 5}}) {
    OnnxBuilder model({5, 3});
    model.Output(model.Node("Gemm", {"x", model.Random("w", {3, 5}), model.Random("c", dims)}));
    const ScratchDirectory directory;
    const absl::Status status = ReadOnnx(model.Write(directory), {.batch = 5}).status();
    CHECK(absl::IsUnimplemented(status));
    CHECK(status.message().find("which is not the same for all images") != std::string::npos);
  }
}

TEST_CASE("a cast of constants gives numbers of the type") {
  const std::vector<float> values = {0.5F, -1.7F, 0, 300.25F, 1.0001F};
  CHECK(CastTo(DataType::BOOL, values) == std::vector<float>{1, 1, 0, 1, 1});
  CHECK(CastTo(DataType::INT32, values) == std::vector<float>{0, -1, 0, 300, 1});
  CHECK(CastTo(DataType::FLOAT16, values) == std::vector<float>{0.5F, -1.7001953F, 0, 300.25F, 1});
  CHECK(CastTo(DataType::BFLOAT16, values) == std::vector<float>{0.5F, -1.703125F, 0, 300, 1});
  CHECK(CastTo(DataType::INT8, {-128, 127, 1.9F}) == std::vector<float>{-128, 127, 1});
  CHECK(CastTo(DataType::UINT8, {0, 255, 1.9F}) == std::vector<float>{0, 255, 1});
  for (const int64_t type : {int64_t{17}, int64_t{21}, int64_t{8}}) {  // 8- and 4-bit, text
    OnnxBuilder model({1, 3, 2, 2});
    const std::string cast = model.Node("Cast", {model.Scalar("h", 0.5F)}, {{"to", type}});
    model.Output(model.Node("Clip", {"x", "", model.Node("Cast", {cast}, {{"to", int64_t{1}}})}));
    const ScratchDirectory directory;
    CHECK(absl::IsUnimplemented(ReadOnnx(model.Write(directory), {}).status()));
  }
}

TEST_CASE("constants are computed element by element, and rounded to their type") {
  const std::vector<float> a = {-1.5F, 2.5F, 3};
  CHECK(Computed("Ceil", {a}) == std::vector<float>{-1, 3, 3});
  CHECK(Computed("Floor", {a}) == std::vector<float>{-2, 2, 3});
  CHECK(Computed("Round", {a}) == std::vector<float>{-2, 2, 3});
  CHECK(Computed("Neg", {a}) == std::vector<float>{1.5F, -2.5F, -3});
  CHECK(Computed("Div", {a, {3}}) == std::vector<float>{-0.5F, 2.5F / 3, 1});
  CHECK(Computed("Add", {{16777216, 1, 1}, {1}}) == std::vector<float>{16777216, 2, 2});
  CHECK(Computed("Max", {a, {0}, {2.75F}}) == std::vector<float>{2.75F, 2.75F, 3});
  CHECK(Computed("Clip", {a, {-1}, {2.75F}}) == std::vector<float>{-1, 2.5F, 2.75F});
  CHECK(Computed("Pow", {a, {2}}) == std::vector<float>{2.25F, 6.25F, 9});
}

TEST_CASE("integers keep their sign, and wrap around where they pass their type") {
  const auto as = [](int64_t type, const std::string& op, const std::vector<float>& a,
                     const std::vector<float>& b) {
    OnnxBuilder model({1, 3});
    const auto cast = [&](const std::string& name, const std::vector<float>& values) {
      return model.Node("Cast", {model.Floats(name, {std::ssize(values)}, values)}, {{"to", type}});
    };
    const std::string result = model.Node(op, {cast("a", a), cast("b", b)});
    const std::string floats = model.Node("Cast", {result}, {{"to", int64_t{1}}});
    model.Output(model.Node("Gemm", {"x", model.Random("w", {3, std::ssize(a)}), floats}));
    return Read(model).weights.at("Gemm_5.bias");
  };
  for (const int64_t type : {DataType::INT64, DataType::INT32, DataType::INT8}) {
    CHECK(as(type, "Add", {-3, 2, -1}, {1, -3, 1}) == std::vector<float>{-2, -1, 0});
    CHECK(as(type, "Max", {-3, 2, -1}, {-4, -3, -2}) == std::vector<float>{-3, 2, -1});
  }
  CHECK(as(DataType::INT8, "Add", {127, -128, 5}, {1, -1, 0}) == std::vector<float>{-128, 127, 5});
  CHECK(as(DataType::UINT8, "Sub", {0, 255, 7}, {1, 0, 7}) == std::vector<float>{255, 255, 0});
  CHECK(as(DataType::INT64, "Div", {-7, 7, -6}, {2, -2, 3}) == std::vector<float>{-3, -3, -2});
}

TEST_CASE("weights may be computed: reshaped, transposed, sliced, scaled") {
  OnnxBuilder model({1, 3, 5, 5});
  const std::string flat = model.Random("flat", {4 * 3 * 2 * 2});
  std::string weight = model.Node("Reshape", {flat, model.Integers("dims", {2, 2, 3, -1})});
  weight = model.Node("Transpose", {weight}, {{"perm", Ints{3, 2, 0, 1}}});
  weight = model.Node("Mul", {weight, model.Scalar("two", 2)});
  const std::string conv = model.Node("Conv", {"x", weight});
  model.Output(conv);
  const OnnxModel read = Read(model);
  const std::vector<float>& values = read.weights.at("Conv_4.weight");
  REQUIRE(values.size() == 48);
  std::vector<float> given(48);
  const std::string& bytes = model.graph().initializer(0).raw_data();
  std::memcpy(given.data(), bytes.data(), bytes.size());
  for (size_t o = 0; o < 4; ++o)
    for (size_t c = 0; c < 3; ++c)
      for (size_t k = 0; k < 4; ++k)
        CHECK(values[(o * 3 + c) * 4 + k] == 2 * given[k * 12 + c * 4 + o]);
}

TEST_CASE("remainders of constants have the sign of the divisor") {
  CHECK(Computed("Mod", {{5, -5, 5}, {3, 3, -3}}) == std::vector<float>{2, 1, -1});
  OnnxBuilder model({1, 3});
  const std::string rest = model.Node(
      "Mod", {model.Random("a", {3}), model.RandomPositive("b", {3})}, {{"fmod", int64_t{1}}});
  model.Output(model.Node("Gemm", {"x", model.Random("w", {3, 3}), rest}));
  const ScratchDirectory directory;
  CHECK(ReadOnnx(model.Write(directory), {}).status().message().find("the sign of what is") !=
        std::string::npos);
}

TEST_CASE("entries of constants are replaced where a ScatterND says") {
  const auto scattered = [](int64_t place) {
    OnnxBuilder model({1, 3});
    const std::string places = model.Node(
        "Reshape", {model.Integers("places", {2, place}), model.Integers("shape", {2, 1})});
    const std::string constant = model.Node("ScatterND", {model.Floats("c", {3}, {1, 2, 3}), places,
                                                          model.Floats("updates", {2}, {7, 8})});
    model.Output(model.Node("Gemm", {"x", model.Random("w", {3, 3}), constant}));
    return model;
  };
  CHECK(Read(scattered(-3)).weights.at("Gemm_3.bias") == std::vector<float>{8, 2, 7});
  const ScratchDirectory directory;
  CHECK(ReadOnnx(scattered(3).Write(directory), {})
            .status()
            .message()
            .find("it scatters to element 3 of 3") != std::string::npos);
}

TEST_CASE("constants are computed of others: sums, means, matrix products, repetitions") {
  CHECK(Computed("Sin", {{0, 1, -1}})[1] == doctest::Approx(std::sin(1.0)));
  CHECK(Computed("Cos", {{0, 1, -1}})[2] == doctest::Approx(std::cos(1.0)));
  CHECK(Computed("Erf", {{0, 1, -1}})[1] == doctest::Approx(std::erf(1.0)));

  OnnxBuilder model({1, 3});  // mean {3}, product {1, 6}, running sums {1, 6}
  const std::string matrix = model.Floats("m", {2, 3}, {1, 2, 3, 5, 6, 7});
  const std::string means = model.Node("ReduceMean", {matrix}, {{"axes", Ints{0}}});
  const std::string other = model.Floats("o", {3, 2}, {1, 0, 0, 1, 2, 1});
  const std::string product = model.Node("MatMul", {means, other});                      // 13, 9
  const std::string tiled = model.Node("Tile", {product, model.Integers("t", {1, 2})});  // twice
  const std::string sums = model.Node("CumSum", {tiled, model.Integers("axis", {1})});
  model.Output(model.Node("Gemm", {"x", model.Random("w", {3, 4}), sums}));
  const OnnxModel read = Read(model);
  CHECK(read.weights.at("Gemm_5.bias") == std::vector<float>{13, 22, 35, 44});
}

TEST_CASE("a convolution has weights that the file standardises") {
  OnnxBuilder model({1, 3, 4, 4});
  const std::string given = model.Random("c.weight", {1, 2, 27});
  const std::string one = model.Floats("one", {2}, {1, 1}),
                    zero = model.Floats("zero", {2}, {0, 0});
  const std::string weight =
      model.Node("BatchNormalization", {given, one, zero, zero, one},
                 {{"epsilon", 1e-5F}, {"momentum", 1.0F}, {"training_mode", int64_t{1}}});
  const std::string kernel = model.Node("Reshape", {weight, model.Integers("k", {2, 3, 3, 3})});
  model.Output(model.Node("Flatten", {model.Node("Conv", {"x", kernel})}));
  const OnnxModel read = Read(model);
  const std::vector<float> values = read.weights.at("Conv_3.weight");
  REQUIRE(values.size() == 54);
  for (const int64_t filter : {0, 1}) {
    double mean = 0, squares = 0;
    for (int64_t i = 0; i < 27; ++i) {
      const auto value = static_cast<double>(values[static_cast<size_t>(27 * filter + i)]);
      mean += value / 27;
      squares += value * value / 27;
    }
    CHECK(std::abs(mean) < 1e-6);
    CHECK(squares == doctest::Approx(1).epsilon(1e-3));
  }
}

}  // namespace
}  // namespace neap::testing

// The files that ReadOnnx() refuses: errors name what is wrong, and hostile files do no harm.
#include <doctest/doctest.h>
#include <sys/resource.h>

#include <functional>
#include <string>
#include <vector>

#include "neap/core/graph/graph.h"
#include "neap/nets/onnx/onnx_file.h"
#include "tests/nets/onnx/onnx_builder.h"
#include "tests/scratch_directory.h"

namespace neap::testing {
namespace {

using nets::ReadOnnx;

// A model with a convolution, a batch norm, paddings, a flatten by computed shape and a matrix
// product.
OnnxBuilder SmallModel() {
  OnnxBuilder model({0, 2, 6, 6});
  const std::string conv = model.Node(
      "Conv", {"x", model.Random("conv.weight", {3, 2, 3, 3}), model.Random("conv.bias", {3})},
      {{"pads", Ints{1, 1, 1, 1}}, {"strides", Ints{2, 2}}});
  const std::string norm =
      model.Node("BatchNormalization",
                 {conv, model.Random("bn.weight", {3}), model.Random("bn.bias", {3}),
                  model.Random("bn.running_mean", {3}), model.Random("bn.running_var", {3})});
  const std::string sum = model.Node("Add", {model.Node("Relu", {norm}), conv});
  const std::string pool =
      model.Node("MaxPool", {sum}, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{1, 1}}});
  const std::string padded =
      model.Node("Pad", {pool, model.Integers("pads", {0, 0, 0, 0, 0, 0, 1, 1})});
  const std::string average = model.Node(
      "AveragePool", {padded}, {{"kernel_shape", Ints{2, 2}}, {"pads", Ints{1, 0, 0, 0}}});
  const std::string batch =
      model.Node("Gather", {model.Node("Shape", {"x"}), model.Integers("zero", {0})});
  const std::string target =
      model.Node("Concat", {batch, model.Integers("rest", {-1})}, {{"axis", int64_t{0}}});
  model.EndWithClasses(model.Node("Reshape", {average, target}), 3 * 3 * 2);
  return model;
}

absl::Status StatusOf(const OnnxBuilder& model) {
  const ScratchDirectory directory;
  return ReadOnnx(model.Write(directory), {.batch = 2}).status();
}

void CheckSays(const absl::Status& status, absl::StatusCode code, const std::string& text) {
  CAPTURE(status.ToString());
  CHECK(status.code() == code);
  CHECK(std::string(status.message()).find(text) != std::string::npos);
}

TEST_CASE("all nodes that neap cannot train are named in one message") {
  OnnxBuilder model({1, 2, 6, 6});
  std::string x = model.Node("GridSample", {"x"});
  x = model.Node("Relu", {x});
  x = model.Node("Einsum", {x});
  const std::string pool =
      model.Node("MaxPool", {"x"}, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2}}});
  const std::string relu = model.Node("Relu", {"x"}, {{"surprise", int64_t{1}}});
  model.EndWithClasses(model.Node("Sum", {pool, relu}), 8);
  const absl::Status status = StatusOf(model);
  CheckSays(status, absl::StatusCode::kUnimplemented,
            "neap cannot train 4 of its 8 nodes (1 Einsum, 1 GridSample, 1 MaxPool, 1 Relu): ");
  for (const char* const text :
       {"node 'GridSample_1' (GridSample): neap has no layer for this operator",
        "node 'Einsum_3' (Einsum): neap has no layer for this operator",
        "node 'MaxPool_4' (MaxPool): attribute 'strides' is 2; 2 numbers",
        "node 'Relu_5' (Relu): attribute 'surprise'"})
    CheckSays(status, absl::StatusCode::kUnimplemented, text);
}

TEST_CASE("nodes behind a refused one are looked at, and those of one operator counted") {
  OnnxBuilder model({1, 2, 6, 6});
  std::string x = "x";
  for (int i = 0; i < 3; ++i) x = model.Node("Hardmax", {x});
  for (int i = 0; i < 30; ++i) x = model.Node("Celu", {model.Node("Relu", {x})});
  model.EndWithClasses(model.Node("LeakyRelu", {x}, {{"surprise", int64_t{1}}}), 2 * 6 * 6);
  const absl::Status status = StatusOf(model);
  CheckSays(status, absl::StatusCode::kUnimplemented,
            "neap cannot train 34 of its 66 nodes (30 Celu, 3 Hardmax, 1 LeakyRelu): nodes "
            "'Hardmax_1', 'Hardmax_2', 'Hardmax_3' (Hardmax): neap has no layer for this operator; "
            "nodes 'Celu_5', ");
  CheckSays(status, absl::StatusCode::kUnimplemented, "'Celu_63' (Celu): neap has no layer");
  CHECK(status.message().find("Behind them") == std::string::npos);
}

TEST_CASE("what only follows from a refused node is told apart") {
  OnnxBuilder model({1, 2, 6, 6});
  const std::string larger = model.Node("GridSample", {"x"});
  const std::string shape = model.Node("Shape", {larger});
  const std::string extent = model.Node("Gather", {shape, model.Integers("two", {2})});
  const std::string less = model.Node("Sub", {extent, model.Integers("one", {1})});
  const std::string pads = model.Node("Concat", {less, less}, {{"axis", int64_t{0}}});
  const std::string pooled = model.Node("AveragePool", {larger}, {{"kernel_shape", Ints{9, 9}}});
  const std::string padded = model.Node("Pad", {pooled, pads});
  model.EndWithClasses(model.Node("Add", {padded, model.Node("Hardmax", {"x"})}), 8);
  const absl::Status status = StatusOf(model);
  CheckSays(status, absl::StatusCode::kUnimplemented,
            "neap cannot train 2 of its 11 nodes (1 GridSample, 1 Hardmax): node 'GridSample_1' "
            "(GridSample): neap has no layer for this operator; node 'Hardmax_8' (Hardmax): ");
  CheckSays(status, absl::StatusCode::kUnimplemented,
            ". Behind them, and perhaps only because of them, it cannot read ");
  for (const char* const text : {"'Gather_3'", "'Sub_4'", "'Concat_5'", "'AveragePool_6'"})
    CheckSays(status, absl::StatusCode::kUnimplemented, text);
}

TEST_CASE("several inputs and outputs are told beside the nodes") {
  OnnxBuilder model({1, 2, 6, 6});
  model.graph().add_input()->set_name("mask");
  model.Output(model.Node("Mul", {model.Node("Hardmax", {"x"}), "mask"}));
  model.Output("x");
  const absl::Status status = StatusOf(model);
  CheckSays(status, absl::StatusCode::kUnimplemented, "the graph has the inputs 'x' and 'mask'; ");
  CheckSays(status, absl::StatusCode::kUnimplemented,
            "neap cannot train 1 of its 2 nodes (1 Hardmax)");
  CheckSays(status, absl::StatusCode::kUnimplemented, "the graph has 2 outputs: value2, x; ");
}

TEST_CASE("what a layer refuses does not end the reading") {
  OnnxBuilder model({1, 2, 6, 6});
  const std::string pooled = model.Node("AveragePool", {"x"}, {{"kernel_shape", Ints{2, 2}}});
  const std::string sum = model.Node("Add", {"x", pooled});
  model.Output(model.Node("Hardmax", {sum}));
  const absl::Status status = StatusOf(model);
  CheckSays(status, absl::StatusCode::kUnimplemented, "neap cannot train 2 of its 3 nodes (1 Add");
  CheckSays(status, absl::StatusCode::kUnimplemented,
            "node 'Hardmax_3' (Hardmax): neap has no layer");
}

TEST_CASE("windows and pads that no layer has are refused") {
  const auto refused = [](const std::string& op, const Attributes& attributes,
                          const std::string& text) {
    OnnxBuilder model({1, 2, 6, 6});
    std::vector<std::string> inputs = {"x"};
    if (op == "ConvTranspose") inputs.push_back(model.Random("w", {2, 2, 3, 3}));
    if (op == "Pad") inputs.push_back(model.Integers("pads", {0, 1, 0, 0, 0, 0, 0, 0}));
    model.EndWithClasses(model.Node(op, inputs, attributes), 2);
    CheckSays(StatusOf(model), absl::StatusCode::kUnimplemented, text);
  };
  const Attributes pool = {{"kernel_shape", Ints{3, 3}}, {"pads", Ints{2, 1, 0, 1}}};
  for (const char* const op : {"MaxPool", "AveragePool"}) {
    refused(op, pool,
            "its padding is 2, 1 before and 0, 1 after the image, which no layer of neap can have");
  }
  refused("MaxPool",
          {{"kernel_shape", Ints{3, 3}},
           {"strides", Ints{2, 2}},
           {"auto_pad", std::string("VALID")},
           {"ceil_mode", int64_t{1}}},
          "attribute 'ceil_mode' is 1 beside 'auto_pad'");
  refused("ConvTranspose",
          {{"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 0}}, {"output_padding", Ints{1, 1}}},
          "attribute 'output_padding' is 1, 1; it must not be negative or exceed 'pads'");
  refused("ConvTranspose", {{"group", int64_t{2}}}, "attribute 'group' is not 1");
  refused("Pad", {}, "attribute 'pads' is 0, 1, 0, 0, 0, 0, 0, 0; only spatial axes");
  refused("Pad", {{"mode", std::string("wrap")}}, "it pads with other values than 0");
}

TEST_CASE("what a network cannot be is refused with the reason") {
  REQUIRE(StatusOf(SmallModel()).ok());
  using Change = std::function<void(OnnxBuilder&)>;
  const auto refused = [](const Change& change, absl::StatusCode code, const std::string& text) {
    OnnxBuilder model = SmallModel();
    change(model);
    CheckSays(StatusOf(model), code, text);
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  constexpr auto kUnimplemented = absl::StatusCode::kUnimplemented;
  refused([](auto& m) { m.model().mutable_opset_import(0)->set_version(8); }, kInvalid,
          "it has opset 8; opset 9 or newer is needed");
  refused([](auto& m) { m.model().clear_opset_import(); }, kInvalid, "which opset");
  refused([](auto& m) { m.model().clear_graph(); }, kInvalid, "this is no ONNX model");
  refused([](auto& m) { m.graph().clear_input(); }, kInvalid, "the graph has no input");
  refused([](auto& m) { m.graph().add_input()->set_name("y"); }, kInvalid, "inputs 'x' and 'y'");
  refused([](auto& m) { m.Output("value1"); }, kInvalid, "the graph has 2 outputs: ");
  refused([](auto& m) { m.graph().mutable_output(0)->set_name("none"); }, kInvalid,
          "the output 'none' is no output of a layer");
  refused([](auto& m) { m.graph().mutable_node(2)->set_input(0, "later"); }, kInvalid,
          "node 'Relu_3' (Relu): its input 0 ('later') is computed by no node before it");
  refused([](auto& m) { m.graph().mutable_initializer(0)->set_dims(0, 4); }, kInvalid,
          "node 'Conv_1' (Conv): bias 'conv.bias' is 3, but 4 is needed");
  refused([](auto& m) { m.graph().mutable_initializer(0)->mutable_raw_data()->pop_back(); },
          kInvalid, "tensor 'conv.weight' has 53 values, but its extents need 54");
  refused([](auto& m) { m.graph().mutable_initializer(0)->set_data_type(8); }, kUnimplemented,
          "tensor 'conv.weight' has elements of type 8");
  refused(
      [](auto& m) {
        m.graph().mutable_initializer(0)->set_data_location(onnx_schema::Tensor::EXTERNAL);
        auto& entry = *m.graph().mutable_initializer(0)->add_external_data();
        entry.set_key("location");
        entry.set_value("../secret");
      },
      kInvalid, "'../secret', which is not in the folder");
  refused([](auto& m) { m.graph().mutable_node(0)->set_domain("com.microsoft"); }, kUnimplemented,
          "(com.microsoft.Conv): the operator's domain is not ONNX's own");
  refused([](auto& m) { m.graph().mutable_node(4)->mutable_attribute(0)->set_ints(0, 0); },
          kInvalid, "kernel 0x2 must be positive");
  refused([](auto& m) { m.graph().mutable_node(0)->set_input(1, "x"); }, kUnimplemented,
          "its input 1 ('x') is no constant");
  refused(
      [](auto& m) {
        m.graph().mutable_node(2)->set_op_type("Softmax");
        auto& axis = *m.graph().mutable_node(2)->add_attribute();
        axis.set_name("axis");
        axis.set_type(onnx_schema::Attribute::INT);
        axis.set_i(0);
      },
      kUnimplemented, "attribute 'axis' is 0, which is not one axis of an image");
}

TEST_CASE("a small file cannot make many copies of a tensor") {
  OnnxBuilder model({1, 128});
  model.Random("w", {128, 128});
  std::string x = "x";
  for (int i = 0; i < 300; ++i) x = model.Node("MatMul", {x, "w"});
  model.Output(x);
  CheckSays(StatusOf(model), absl::StatusCode::kInvalidArgument,
            "its layers share tensors so often that 16384 values would become 4210688");
}

TEST_CASE("files that are missing, empty or no ONNX models are refused") {
  const ScratchDirectory directory;
  CHECK(absl::IsNotFound(ReadOnnx(directory.File("none.onnx"), {}).status()));
  for (const char* const text : {"", "no model", "\x08\x08"}) {
    WriteText(directory.File("bad.onnx"), text);
    CHECK(absl::IsInvalidArgument(ReadOnnx(directory.File("bad.onnx"), {}).status()));
  }
  const std::string good = SmallModel().Write(directory);
  CHECK(absl::IsInvalidArgument(ReadOnnx(good, {.batch = 0}).status()));
  CHECK(absl::IsInvalidArgument(ReadOnnx(good, {.dtype = DType::kInt32}).status()));
}

TEST_CASE("no change of a file's bytes does harm") {
  const ScratchDirectory directory;
  const std::string path = SmallModel().Write(directory);
  const std::string good = ReadText(path);
  uint64_t state = 99;
  const auto next = [&](size_t limit) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return static_cast<size_t>(state >> 33) % limit;
  };
  int read = 0;
  for (int i = 0; i < 5000; ++i) {
    CAPTURE(i);
    std::string bytes = good;
    const size_t changes = 1 + next(4);
    for (size_t change = 0; change < changes && !bytes.empty(); ++change) {
      const size_t at = next(bytes.size());
      switch (next(5)) {
        case 0:
          bytes[at] = static_cast<char>(bytes[at] ^ (1 << next(8)));
          break;
        case 1:
          bytes[at] = static_cast<char>(next(256));
          break;
        case 2:
          bytes.resize(at);
          break;
        case 3:
          bytes.erase(at, 1 + next(8));
          break;
        default:
          bytes.insert(at, bytes.substr(next(bytes.size()), next(40)));
      }
    }
    WriteText(path, bytes);
    const absl::StatusOr<nets::OnnxModel> model = ReadOnnx(path, {.batch = 2});
    if (!model.ok()) continue;
    ++read;
    Resolve(model->graph, Mode::kTraining).status().IgnoreError();
  }
  CHECK(read > 50);
  CHECK(read < 4950);
  rusage usage = {};
  REQUIRE(getrusage(RUSAGE_SELF, &usage) == 0);
  CHECK(usage.ru_maxrss < 1 << 20);  // KiB
}

}  // namespace
}  // namespace neap::testing

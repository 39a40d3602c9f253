#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/graph/graph.h"
#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/channel_shuffle.h"
#include "neap/nets/onnx/onnx_file.h"
#include "tests/nets/onnx/onnx_builder.h"
#include "tests/nets/onnx/onnx_checks.h"
#include "tests/scratch_directory.h"

namespace neap::testing {
namespace {

using nets::OnnxModel;
using nets::ReadOnnx;

TEST_CASE("operators on elements compute what ONNX says") {
  for (const char* const op : {"Relu", "Sigmoid", "Tanh", "Identity", "HardSwish"})
    CheckOneNode({op, {2, 3, 5, 4}, {}, {}, 3 * 5 * 4});
  CheckOneNode({"LRN",
                {2, 7, 3, 4},
                {},
                {{"size", int64_t{5}}, {"alpha", 0.3F}, {"beta", 0.6F}, {"bias", 1.5F}},
                7 * 3 * 4});
  CheckOneNode({"Cast", {2, 3, 5, 4}, {}, {{"to", int64_t{1}}}, 3 * 5 * 4});
}

TEST_CASE("clips and leaky ReLUs compute what ONNX says") {
  OnnxBuilder model({1, 2, 4, 4});
  std::string x = model.Node("LeakyRelu", {"x"}, {{"alpha", 0.2F}});
  x = model.Node("Clip", {x, model.Scalar("low", -0.1F), model.Scalar("high", 0.4F)});
  x = model.Node("HardSigmoid", {x}, {{"alpha", 0.16666667F}});
  model.EndWithClasses(x, 2 * 4 * 4);
  CheckPredicts(model, {1, 2, 4, 4});
}

TEST_CASE("a product is one of two layers, or a gate of its own input") {
  for (const bool swapped : {false, true}) {
    OnnxBuilder model({1, 3, 4, 5});
    const auto multiply = [&](const std::string& a, const std::string& b) {
      return swapped ? model.Node("Mul", {b, a}) : model.Node("Mul", {a, b});
    };
    const std::string silu = multiply("x", model.Node("Sigmoid", {"x"}));
    const std::string swish =
        multiply(silu, model.Node("HardSigmoid", {silu}, {{"alpha", 1.0F / 6}}));
    const std::string squeezed = model.Node("GlobalAveragePool", {swish});
    const std::string excited = multiply(swish, model.Node("Sigmoid", {squeezed}));
    const std::string whole = multiply(excited, silu);
    model.EndWithClasses(whole, 3 * 4 * 5);
    CheckPredicts(model, {1, 3, 4, 5});
    const ScratchDirectory directory;
    std::vector<std::string> types;
    const OnnxModel read = ReadOnnx(model.Write(directory), {.batch = 1}).value();
    for (const GraphLayer& layer : read.graph.layers()) types.emplace_back(layer.layer.type());
    CHECK(types == std::vector<std::string>{"feed", "silu", "hard_swish", "global_average_pool",
                                            "sigmoid", "multiply", "multiply", "fully_connected",
                                            "feed", "softmax_cross_entropy"});
  }
}

TEST_CASE("batch norms, joins, dropout, padding and slices compute what ONNX says") {
  OnnxBuilder model({0, 3, 8, 9});
  const std::string norm = model.Node(
      "BatchNormalization",
      {"x", model.Random("bn.weight", {3}), model.Random("bn.bias", {3}),
       model.Random("bn.running_mean", {3}), model.RandomPositive("bn.running_var", {3})},
      {{"epsilon", 1e-3F}});
  const std::string sum = model.Node("Sum", {norm, "x", norm});
  const std::string raised = model.Node("Add", {model.Node("GlobalAveragePool", {sum}), sum});
  const std::string dropped = model.Node("Dropout", {raised, model.Scalar("ratio", 0.3F)});
  const std::string both = model.Node("Concat", {dropped, norm}, {{"axis", int64_t{-3}}});
  const std::string padded =
      model.Node("Pad", {both, model.Integers("pads", {0, 0, 1, 2, 0, 0, 1, 2})});
  const std::string conv = model.Node("Conv", {padded, model.Random("c.weight", {4, 6, 3, 3})},
                                      {{"pads", Ints{1, 0, 1, 0}}});
  const std::string part =
      model.Node("Slice", {conv, model.Integers("starts", {1, 2}), model.Integers("ends", {7, 9}),
                           model.Integers("axes", {2, 3})});
  model.EndWithClasses(part, 4 * 6 * 7);
  CheckPredicts(model, {0, 3, 8, 9});
  CheckPredicts(model, {0, 3, 8, 9}, Layout::kChannelsLast);
}

TEST_CASE("matrix products take both orders of the weight, and a bias that is added later") {
  OnnxBuilder model({1, 12});
  const std::string first = model.Node("MatMul", {"x", model.Random("w1", {12, 7})});
  const std::string biased = model.Node("Add", {model.Random("b1", {7}), first});
  const std::string second =
      model.Node("Gemm", {biased, model.Random("w2", {6, 7}), model.Random("b2", {1, 6})},
                 {{"transB", int64_t{1}}});
  const std::string third = model.Node("Gemm", {second, model.Random("w3", {6, 4})});
  model.Output(model.Node("Softmax", {third}, {{"axis", int64_t{1}}}));
  model.graph().mutable_node()->RemoveLast();  // the reference makes the softmax itself
  model.graph().mutable_output(0)->set_name(third);
  CheckPredicts(model, {1, 12});
}

TEST_CASE("a bias that is added to a convolution becomes its own") {
  OnnxBuilder model({1, 2, 4, 4});
  const std::string conv = model.Node("Conv", {"x", model.Random("c.weight", {3, 2, 2, 2})});
  model.EndWithClasses(model.Node("Add", {conv, model.Random("b", {1, 3, 1, 1})}), 3 * 3 * 3);
  CheckPredicts(model, {1, 2, 4, 4});
}

TEST_CASE("the shape that an exporter computes for a flatten is computed while reading") {
  OnnxBuilder model({0, 2, 4, 3});
  const std::string shape = model.Node("Shape", {"x"});
  const std::string batch = model.Node("Gather", {shape, model.Integers("zero", {0})});
  const std::string rest = model.Integers("rest", {-1});
  const std::string target = model.Node("Concat", {batch, rest}, {{"axis", int64_t{0}}});
  const std::string relu = model.Node("Relu", {"x"});
  const std::string flat = model.Node("Reshape", {relu, target});
  model.Output(model.Node("Gemm", {flat, model.Random("fc.weight", {24, 4})}));
  CheckPredicts(model, {0, 2, 4, 3});
}

TEST_CASE(
    "groups of channels that become the third axis are a shuffle, and with its inverse nothing") {
  const auto read_shuffles = [](const std::vector<int64_t>& all) {
    OnnxBuilder model({1, 6, 4, 3});
    std::string x = "x";
    for (const int64_t groups : all) {
      const std::string name = absl::StrCat("groups ", groups);
      const Ints grouped = {1, groups, -1, 4, 3};
      x = model.Node("Reshape", {x, model.Integers(name, grouped)});
      x = model.Node("Transpose", {x}, {{"perm", Ints{0, 2, 1, 3, 4}}});
      x = model.Node("Reshape", {x, model.Integers(name + " end", {1, 6, 4, 3})});
    }
    model.EndWithClasses(x, 72);
    const ScratchDirectory directory;
    return ReadOnnx(model.Write(directory), {.batch = 5}).value();
  };
  const OnnxModel one = read_shuffles({3});
  REQUIRE(one.graph.layers().size() == 5);
  CHECK(one.graph.layers()[1].layer == Layer(ChannelShuffle{.groups = 3}));
  CHECK(read_shuffles({3, 2}).graph.layers().size() == 4);
}

TEST_CASE("groups of channels as the last axes are a shuffle, too") {
  OnnxBuilder model({1, 6, 4, 3});
  std::string x = model.Node("Transpose", {"x"}, {{"perm", Ints{0, 2, 3, 1}}});
  for (const int64_t groups : {3}) {
    const std::string name = absl::StrCat("groups ", groups);
    x = model.Node("Reshape", {x, model.Integers(name, {-1, 4, 3, groups, 6 / groups})});
    x = model.Node("Transpose", {x}, {{"perm", Ints{0, 1, 2, 4, 3}}});
    x = model.Node("Reshape", {x, model.Integers(name + " end", {1, 4, 3, 6})});
  }
  x = model.Node("Transpose", {x}, {{"perm", Ints{0, 3, 1, 2}}});
  model.EndWithClasses(x, 72);
  const ScratchDirectory directory;
  const absl::StatusOr<OnnxModel> read = ReadOnnx(model.Write(directory), {.batch = 5});
  REQUIRE_MESSAGE(read.ok(), read.status().ToString());
  REQUIRE(read->graph.layers().size() == 5);
  CHECK(read->graph.layers()[1].layer == Layer(ChannelShuffle{.groups = 3}));
}

TEST_CASE("axes that are no groups of channels are made by a reshape, and by permutations") {
  const auto read = [](const Ints& first, const Ints& grouped, const Ints& order) {
    OnnxBuilder model({1, 6, 4, 3});
    std::string x = model.Node("Transpose", {"x"}, {{"perm", first}});
    x = model.Node("Reshape", {x, model.Integers("grouped", grouped)});
    x = model.Node("Transpose", {x}, {{"perm", order}});
    model.EndWithClasses(x, 72);
    const ScratchDirectory directory;
    return ReadOnnx(model.Write(directory), {.batch = 1});
  };
  const auto types = [&](const Ints& first, const Ints& grouped, const Ints& order) {
    const absl::StatusOr<OnnxModel> model = read(first, grouped, order);
    REQUIRE_MESSAGE(model.ok(), model.status().ToString());
    std::vector<std::string> found;
    for (const GraphLayer& layer : model->graph.layers()) {
      const std::string type(layer.layer.type());
      if (type == "permute" || type == "reshape") found.push_back(type);
    }
    return found;
  };
  const Ints same = {0, 1, 2, 3};
  const Ints last = {0, 2, 3, 1};
  const std::vector<std::string> all = {"permute", "reshape", "permute"};
  CHECK(types(last, {1, 2, 3, 4, 3}, {0, 2, 1, 3, 4}) == all);
  CHECK(types(last, {1, 4, 3, 2, 3}, {0, 2, 1, 3, 4}) ==
        std::vector<std::string>{"permute", "reshape"});
  CHECK(types(same, {1, 4, 3, 2, 3}, {0, 1, 2, 4, 3}) ==
        std::vector<std::string>{"reshape", "permute"});
  const std::string message(read(last, {1, 4, 3, 4, 2}, {0, 1, 2, 4, 3}).status().message());
  CAPTURE(message);
  CHECK(message.find("it makes 1x4x3x4x2 of 1x4x3x6") != std::string::npos);
}

TEST_CASE("what reads groups of channels is read as of the channels") {
  OnnxBuilder model({1, 6, 4, 3});
  const std::string grouped =
      model.Node("Reshape", {"x", model.Integers("grouped", {1, 2, 3, 4, 3})});
  model.EndWithClasses(model.Node("Relu", {grouped}), 72);
  const ScratchDirectory directory;
  const absl::StatusOr<OnnxModel> read = ReadOnnx(model.Write(directory), {});
  REQUIRE_MESSAGE(read.ok(), read.status().ToString());
  CHECK(read->graph.layers()[1].layer == Layer(Relu{}));
}

TEST_CASE("a reshape to the batch of the file is one to any batch") {
  OnnxBuilder model({1, 2, 4, 3});
  const std::string flat =
      model.Node("Reshape", {"x", model.Integers("to", {1, 24})}, {{"allowzero", int64_t{1}}});
  model.Output(model.Node("Gemm", {flat, model.Random("fc.weight", {24, 4})}));
  CheckPredicts(model, {1, 2, 4, 3});
}

TEST_CASE("scores of every pixel are trained by pixel; a softmax at the end is the loss's own") {
  OnnxBuilder model({1, 2, 5, 6});
  const std::string scores = model.Node("Conv", {"x", model.Random("c.weight", {4, 2, 1, 1})});
  model.Output(scores);
  CheckPredicts(model, {1, 2, 5, 6});
  const ScratchDirectory directory;
  const Graph plain = ReadOnnx(model.Write(directory), {})->graph;
  for (const char* const op : {"Softmax", "LogSoftmax"}) {
    model.graph().clear_output();
    model.Output(model.Node(op, {scores}, {{"axis", int64_t{1}}}));
    const absl::StatusOr<OnnxModel> read = ReadOnnx(model.Write(directory), {});
    REQUIRE_MESSAGE(read.ok(), read.status().ToString());
    CHECK(read->graph.layers().size() == plain.layers().size());
  }
}

TEST_CASE("layers are named after their weights, or their nodes; the momentum is PyTorch's") {
  OnnxBuilder model({1, 2, 4, 4});
  const auto rename = [&](const std::string& name) {
    model.graph().mutable_node(model.graph().node_size() - 1)->set_name(name);
  };
  const std::string conv =
      model.Node("Conv", {"x", model.Random("layer1.0.conv.weight", {3, 2, 1, 1})});
  const std::string norm =
      model.Node("BatchNormalization",
                 {conv, model.Random("onnx::BN_1", {3}), model.Random("onnx::BN_2", {3}),
                  model.Random("onnx::BN_3", {3}), model.Random("onnx::BN_4", {3})},
                 {{"momentum", 0.9F}});
  rename("/layer1/layer1.0/norm/BatchNormalization");
  const std::string relu = model.Node("Relu", {norm});
  rename("");
  const std::string add = model.Node("Add", {relu, conv});
  rename("/layer1/layer1.0/Add");
  model.EndWithClasses(add, 3 * 4 * 4);
  const ScratchDirectory directory;
  const absl::StatusOr<OnnxModel> read = ReadOnnx(model.Write(directory, "net.v1.onnx"), {});
  REQUIRE_MESSAGE(read.ok(), read.status().ToString());
  std::vector<std::string> names;
  for (const GraphLayer& layer : read->graph.layers()) {
    names.push_back(layer.name);
    if (const auto* const bn = layer.layer.As<BatchNorm>()) CHECK(bn->momentum == 0.1F);
  }
  CHECK(names == std::vector<std::string>{"input", "layer1.0.conv", "layer1.0.norm", relu,
                                          "layer1.0.Add", "classes", "labels", "loss"});
  CHECK(read->graph.options().name == "net.v1");
  CHECK(read->weights.contains("layer1.0.norm.running_var"));
}

TEST_CASE("weights may be 16-bit numbers, doubles, lists of numbers, or in another file") {
  const std::vector<float> values = {0.5F, -2, 3, 0.25F, 1, -0.125F, 8, 0};
  const ScratchDirectory directory;
  for (const std::string_view kind : {"raw", "list", "double", "fp16", "bf16", "external"}) {
    CAPTURE(kind);
    OnnxBuilder model({1, 4});
    model.Output(model.Node("Gemm", {"x", model.Floats("fc.weight", {2, 4}, values)},
                            {{"transB", int64_t{1}}}));
    onnx_schema::Tensor& tensor = *model.graph().mutable_initializer(0);
    const std::string raw = tensor.raw_data();
    if (kind != "raw") tensor.clear_raw_data();
    if (kind == "list") {
      for (const float value : values) tensor.add_float_data(value);
    } else if (kind == "double") {
      tensor.set_data_type(onnx_schema::Tensor::DOUBLE);
      for (const float value : values) tensor.add_double_data(static_cast<double>(value));
    } else if (kind == "fp16") {
      tensor.set_data_type(onnx_schema::Tensor::FLOAT16);
      for (const int bits : {0x3800, 0xC000, 0x4200, 0x3400, 0x3C00, 0xB000, 0x4800, 0})
        tensor.add_int32_data(bits);
    } else if (kind == "bf16") {
      tensor.set_data_type(onnx_schema::Tensor::BFLOAT16);
      for (size_t i = 2; i < raw.size(); i += 4) tensor.mutable_raw_data()->append(raw, i, 2);
    } else if (kind == "external") {
      WriteText(directory.File("weights.bin"), "1234" + raw);
      tensor.set_data_location(onnx_schema::Tensor::EXTERNAL);
      for (const auto& [key, value] :
           {std::pair("location", "weights.bin"), {"offset", "4"}, {"length", "32"}}) {
        tensor.add_external_data()->set_key(key);
        tensor.mutable_external_data(tensor.external_data_size() - 1)->set_value(value);
      }
    }
    const absl::StatusOr<OnnxModel> read = ReadOnnx(model.Write(directory), {});
    REQUIRE_MESSAGE(read.ok(), read.status().ToString());
    CHECK(read->weights.at("fc.weight") == values);
  }
}

TEST_CASE("the size of images that a file leaves open is given, and may be another one") {
  OnnxBuilder model({0, 2, 0, 0});
  model.EndWithClasses(model.Node("GlobalAveragePool", {"x"}), 2);
  const ScratchDirectory directory;
  const std::string path = model.Write(directory);
  const absl::Status refused = ReadOnnx(path, {}).status();
  CHECK(refused.message().find("'x' has C, H, W 2x0x0") != std::string::npos);
  const absl::StatusOr<OnnxModel> read = ReadOnnx(path, {.batch = 7, .image = 12});
  REQUIRE(read.ok());
  const ResolvedGraph resolved = Resolve(read->graph, Mode::kTraining).value();
  CHECK(resolved.layers[0].spec.output.shape == Shape{7, 2, 12, 12});
}

TEST_CASE(
    "layers share the weights that nodes do, but not copies that exporters make of equal ones") {
  OnnxBuilder model({1, 3, 4, 4});
  const auto norm = [&](const std::string& x, const std::string& weight) {
    return model.Node("BatchNormalization",
                      {x, weight, model.Random(weight + "_b", {3}),
                       model.Random(weight + "_m", {3}), model.RandomPositive(weight + "_v", {3})});
  };
  model.Random("block.conv.weight", {3, 3, 1, 1});
  const std::string first = model.Node("Conv", {"x", "block.conv.weight"});
  const std::string scaled = norm(first, model.Floats("bn1.weight", {3}, {1, 1, 1}));
  const std::string second = model.Node("Conv", {scaled, "block.conv.weight"});
  const std::string again = norm(second, model.Node("Identity", {"bn1.weight"}));
  model.EndWithClasses(again, 3 * 4 * 4);
  const ScratchDirectory directory;
  const absl::StatusOr<OnnxModel> read = ReadOnnx(model.Write(directory), {});
  REQUIRE_MESSAGE(read.ok(), read.status().ToString());
  CHECK(read->notices.empty());
  const std::string owner = "block.conv.weight", param = "block.conv_2.weight";
  CHECK(read->graph.shared() == std::vector<SharedParam>{{param, owner}});
  CHECK(read->weights.contains(owner));
  CHECK_FALSE(read->weights.contains(param));
  CHECK(Resolve(read->graph, Mode::kTraining).ok());
}

TEST_CASE(
    "images with the channels as the last axis are read if a transpose makes them the second") {
  OnnxBuilder model({1, 5, 6, 3});
  const std::string x = model.Node("Transpose", {"x"}, {{"perm", Ints{0, 3, 1, 2}}});
  const std::string conv = model.Node("Conv", {x, model.Random("w", {4, 3, 1, 1})});
  const std::string last = model.Node("Transpose", {conv}, {{"perm", Ints{0, 2, 3, 1}}});
  const std::string pooled =
      model.Node("ReduceMean", {last}, {{"axes", Ints{1, 2}}, {"keepdims", int64_t{0}}});
  model.Output(pooled);
  const ScratchDirectory directory;
  const absl::StatusOr<OnnxModel> read = ReadOnnx(model.Write(directory), {.batch = 2});
  REQUIRE_MESSAGE(read.ok(), read.status().ToString());
  const ResolvedGraph resolved = Resolve(read->graph, Mode::kTraining).value();
  CHECK(resolved.layers[0].spec.output.shape == Shape{2, 3, 5, 6});
}

TEST_CASE("the batch is the file's, unless another is given") {
  for (const int64_t stated : {0, 5}) {
    OnnxBuilder model({stated, 3});
    model.Output(model.Node("Gemm", {"x", model.Random("w", {3, 2})}));
    const ScratchDirectory directory;
    const std::string path = model.Write(directory);
    CHECK(ReadOnnx(path, {.batch = {}})->graph.options().batch == (stated == 0 ? 32 : stated));
    CHECK(ReadOnnx(path, {.batch = 7})->graph.options().batch == 7);
  }
}

}  // namespace
}  // namespace neap::testing

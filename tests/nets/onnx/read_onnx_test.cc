#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "neap/core/run/session.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/cpu/cpu_device.h"
#include "neap/layers/fully_connected.h"
#include "neap/memory/create_session.h"
#include "neap/nets/onnx/onnx_file.h"
#include "tests/nets/onnx/onnx_builder.h"
#include "tests/nets/onnx/onnx_reference.h"
#include "tests/scratch_directory.h"

namespace neap::testing {
namespace {

using nets::OnnxModel;
using nets::ReadOnnx;

std::vector<float> RandomImages(int64_t count) {
  std::vector<float> images;
  uint32_t state = 7;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 1664525U + 1013904223U;
    images.push_back(static_cast<float>(state >> 8) / static_cast<float>(1 << 23) - 1);
  }
  return images;
}

int64_t Elements(const Ints& dims) {
  int64_t count = 1;
  for (const int64_t extent : dims) count *= extent;
  return count;
}

// {N, C, H, W} or {N, C} to the softmax over the second axis.
std::vector<double> SoftmaxOf(const ReferenceTensor& scores) {
  std::vector<double> result(scores.values.size());
  const int64_t channels = scores.dims[1];
  const int64_t pixels = std::ssize(scores.values) / scores.dims[0] / channels;
  for (int64_t n = 0; n < scores.dims[0]; ++n) {
    for (int64_t pixel = 0; pixel < pixels; ++pixel) {
      const auto at = [&](int64_t c) {
        return static_cast<size_t>((n * channels + c) * pixels + pixel);
      };
      double sum = 0;
      for (int64_t c = 0; c < channels; ++c) sum += std::exp(scores.values[at(c)]);
      for (int64_t c = 0; c < channels; ++c) result[at(c)] = std::exp(scores.values[at(c)]) / sum;
    }
  }
  return result;
}

// Predicts with the model on images of these extents as read and in the reference. The file's batch
// may be another one.
void CheckPredicts(OnnxBuilder& builder, Ints dims, Layout layout = Layout::kNchw) {
  const ScratchDirectory directory;
  dims[0] = 3;
  const absl::StatusOr<OnnxModel> model =
      ReadOnnx(builder.Write(directory), {.batch = dims[0], .layout = layout});
  REQUIRE_MESSAGE(model.ok(), model.status().ToString());
  const std::unique_ptr<CpuDevice> device = CpuDevice::Open().value();
  absl::StatusOr<Session> session =
      CreateSession(model->graph, *device, {}, {.inference_only = true});
  REQUIRE_MESSAGE(session.ok(), session.status().ToString());
  REQUIRE(session->LoadWeights(model->weights).ok());
  const std::vector<float> images = RandomImages(Elements(dims));
  const Prediction got = session->Predict(images).value();
  const std::vector<double> want =
      SoftmaxOf(RunReference(builder.graph(), {dims, {images.begin(), images.end()}}));
  REQUIRE(got.probabilities.size() == want.size());
  double largest = 0;
  for (size_t i = 0; i < want.size(); ++i)
    largest = std::max(largest, std::abs(static_cast<double>(got.probabilities[i]) - want[i]));
  CHECK(largest < 2e-6);
}

// A model that applies one operator to the images and classifies what it computes.
struct OneNode {
  std::string op;
  Ints image;     // {N, C, H, W}
  Ints weight{};  // empty if the operator has no weight
  Attributes attributes{};
  int64_t outputs = 0;  // of an image
  bool bias = false;
};

void CheckOneNode(const OneNode& given) {
  CAPTURE(given.op);
  for (const Layout layout : {Layout::kNchw, Layout::kNhwc}) {
    OnnxBuilder model(given.image);
    std::vector<std::string> inputs = {"x"};
    if (!given.weight.empty()) inputs.push_back(model.Random("layer.weight", given.weight));
    if (given.bias) {
      const bool transposed = given.op == "ConvTranspose";
      inputs.push_back(model.Random("layer.bias", {given.weight[transposed ? 1 : 0]}));
    }
    model.EndWithClasses(model.Node(given.op, inputs, given.attributes), given.outputs);
    CheckPredicts(model, given.image, layout);
  }
}

TEST_CASE("convolutions of all strides, paddings, dilations and groups compute what ONNX says") {
  CheckOneNode({"Conv", {2, 3, 7, 6}, {4, 3, 3, 2}, {}, 4 * 5 * 5});
  CheckOneNode({"Conv",
                {2, 4, 7, 9},
                {6, 2, 3, 3},
                {{"pads", Ints{1, 2, 1, 2}},
                 {"strides", Ints{2, 1}},
                 {"group", int64_t{2}},
                 {"kernel_shape", Ints{3, 3}}},
                6 * 4 * 11,
                true});
  CheckOneNode({"Conv",
                {1, 4, 8, 8},
                {4, 1, 3, 3},
                {{"dilations", Ints{2, 1}}, {"group", int64_t{4}}},
                4 * 4 * 6});
  // An uneven padding of which the window does not reach the end.
  CheckOneNode({"Conv",
                {1, 2, 6, 6},
                {3, 2, 3, 3},
                {{"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 0, 0}}},
                3 * 3 * 3});
  CheckOneNode({"ConvTranspose",
                {2, 3, 4, 5},
                {3, 2, 3, 4},
                {{"strides", Ints{2, 3}}, {"pads", Ints{1, 0, 1, 0}}},
                2 * 7 * 16,
                true});
}

TEST_CASE("poolings compute what ONNX says") {
  CheckOneNode({"MaxPool",
                {2, 3, 7, 8},
                {},
                {{"kernel_shape", Ints{3, 2}}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 0, 1, 0}}},
                3 * 4 * 4});
  CheckOneNode({"MaxPool",
                {2, 3, 7, 7},
                {},
                {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"ceil_mode", int64_t{1}}},
                3 * 3 * 3});
  CheckOneNode({"MaxPool",
                {2, 3, 8, 6},
                {},
                {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"ceil_mode", int64_t{1}}},
                3 * 4 * 3});
  // Rounded up, a third window would begin in the padding behind the image.
  CheckOneNode({"MaxPool",
                {2, 3, 5, 5},
                {},
                {{"kernel_shape", Ints{2, 2}},
                 {"strides", Ints{3, 3}},
                 {"pads", Ints{0, 1, 1, 0}},
                 {"ceil_mode", int64_t{1}}},
                3 * 2 * 2});
  for (const int64_t counts : {0, 1}) {
    CheckOneNode({"AveragePool",
                  {2, 3, 7, 8},
                  {},
                  {{"kernel_shape", Ints{3, 3}},
                   {"strides", Ints{2, 1}},
                   {"pads", Ints{1, 1, 1, 1}},
                   {"count_include_pad", counts}},
                  3 * 4 * 8});
  }
  CheckOneNode({"AveragePool", {2, 3, 4, 4}, {}, {{"kernel_shape", Ints{1, 1}}}, 3 * 4 * 4});
  // The same positions with and without ceil_mode.
  CheckOneNode({"AveragePool",
                {2, 3, 5, 5},
                {},
                {{"kernel_shape", Ints{3, 3}},
                 {"strides", Ints{2, 2}},
                 {"pads", Ints{1, 1, 1, 1}},
                 {"count_include_pad", int64_t{1}},
                 {"ceil_mode", int64_t{1}}},
                3 * 3 * 3});
  CheckOneNode({"GlobalAveragePool", {2, 6, 5, 4}, {}, {}, 6});
  CheckOneNode({"ReduceMean", {2, 6, 5, 4}, {}, {{"axes", Ints{-1, 2}}}, 6});
}

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
    CHECK(types == std::vector<std::string>{"images", "silu", "hard_swish", "global_average_pool",
                                            "sigmoid", "multiply", "multiply", "fully_connected",
                                            "labels", "softmax_cross_entropy"});
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
  const std::string dropped = model.Node("Dropout", {sum, model.Scalar("ratio", 0.3F)});
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
  CheckPredicts(model, {0, 3, 8, 9}, Layout::kNhwc);
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

}  // namespace
}  // namespace neap::testing

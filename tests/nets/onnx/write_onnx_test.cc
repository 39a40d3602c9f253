#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/program/passes.h"
#include "neap/core/run/session.h"
#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/convolution.h"
#include "neap/layers/cpu/cpu_device.h"
#include "neap/layers/crop.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/join.h"
#include "neap/layers/loss/dice_loss.h"
#include "neap/layers/pooling.h"
#include "neap/layers/prelu.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/layers/target_loss.h"
#include "neap/layers/transposed_convolution.h"
#include "neap/layers/zero_pad.h"
#include "neap/memory/create_session.h"
#include "neap/memory/planner.h"
#include "neap/nets/onnx/onnx_file.h"
#include "neap/nets/registry.h"
#include "neap/nets/segmentation/nnunet.h"
#include "onnx_schema.pb.h"
#include "tests/nets/onnx/onnx_builder.h"
#include "tests/scratch_directory.h"

namespace neap::testing {
namespace {

using nets::NetOptions;
using nets::NnUNetOptions;
using nets::NnUNetStage;
using nets::OnnxModel;

// Random values of all parameters and running statistics; variances are positive.
NamedValues RandomWeights(const Graph& graph) {
  NamedValues weights;
  uint32_t state = 3;
  const auto fill = [&](const std::string& name, int64_t count) {
    std::vector<float>& values = weights[name];
    for (int64_t i = 0; i < count; ++i) {
      state = state * 1664525U + 1013904223U;
      values.push_back(0.05F + static_cast<float>(state >> 8) / static_cast<float>(1 << 28));
    }
  };
  const ResolvedGraph resolved = Resolve(graph, Mode::kInference).value();
  for (const ResolvedLayer& layer : resolved.layers) {
    if (layer.role != LayerRole::kInner) continue;
    for (const ParamSpec& param : layer.spec.params)
      fill(absl::StrCat(layer.name, ".", param.name), param.tensor.elements());
    for (const StateSpec& at : layer.spec.states)
      fill(absl::StrCat(layer.name, ".", at.name), at.tensor.elements());
  }
  return weights;
}

// The plan of a training iteration as JSON.
std::string PlanOf(const Graph& graph, Device& device) {
  const Program program = Lower(graph, {}, device.description()).value();
  return MakePlan(program, {}, device.description(), device.backend())->plan.ToJson();
}

void CheckGraphRoundTrip(const Graph& graph, const Layer& loss) {
  CAPTURE(graph.options().name);
  const ScratchDirectory directory;
  const NamedValues weights = RandomWeights(graph);
  // A file is called like its network.
  const std::string path = directory.File(graph.options().name + ".onnx");
  const absl::Status written = nets::WriteOnnx(path, graph, weights);
  REQUIRE_MESSAGE(written.ok(), written.ToString());
  const absl::StatusOr<OnnxModel> read =
      nets::ReadOnnx(path, {.batch = graph.options().batch, .loss = loss});
  REQUIRE_MESSAGE(read.ok(), read.status().ToString());
  CHECK(read->weights == weights);
  const auto device = CpuDevice::Open().value();
  CHECK(PlanOf(read->graph, *device) == PlanOf(graph, *device));
}

void CheckRoundTrip(const std::string& name, const NetOptions& options) {
  CheckGraphRoundTrip(nets::Build(name, options).value(), SoftmaxCrossEntropy{});
}

TEST_CASE("networks for segmentation that were written and read again have the same plan") {
  NnUNetOptions plain = nets::NnUNet3d(16), residual = nets::ResEncUNet3d(16),
                images = nets::NnUNet2d(16);
  for (NnUNetOptions* const options : {&plain, &residual, &images}) {
    for (NnUNetStage& stage : options->stages) stage.features /= 8;
    options->deep_supervision = false;  // auxiliary losses are not in the file
    DiceLoss loss = NnUNetLoss();
    loss.batch = options->batch_dice;
    CheckGraphRoundTrip(nets::NnUNet(*options), loss);
  }
}

TEST_CASE("a network that was written and read again has the same plan and the same weights") {
  CheckRoundTrip("lenet", {.batch = 4});
  CheckRoundTrip("alexnet", {.batch = 2, .image = 67, .classes = 10});
  CheckRoundTrip("alexnet-torchvision", {.batch = 2, .image = 64, .classes = 10});
  CheckRoundTrip("resnet18", {.batch = 2, .image = 32, .classes = 10});
  CheckRoundTrip("resnet20", {.batch = 4, .image = 16});
  CheckRoundTrip("densenet-bc-cifar", {.batch = 2, .image = 16, .depth = 16});
  CheckRoundTrip("unet", {.batch = 1, .image = 16});
  CheckRoundTrip("unet-resnet18", {.batch = 2, .image = 64, .classes = 3});
  CheckRoundTrip("mobilenet_v3_small", {.batch = 2, .image = 32, .classes = 10});
  CheckRoundTrip("efficientnet_b0", {.batch = 2, .image = 32, .classes = 10});
}

TEST_CASE("trained weights predict the same bits after they were written and read") {
  const ScratchDirectory directory;
  const auto device = CpuDevice::Open().value();
  const Graph graph = nets::Build("resnet20", {.batch = 4, .image = 16}).value();
  Session source = CreateSession(graph, *device, {}).value();
  Batch batch = {.images = std::vector<float>(4 * 3 * 16 * 16), .labels = {1, 2, 3, 4}, .size = 4};
  for (size_t i = 0; i < batch.images.size(); ++i)
    batch.images[i] = static_cast<float>(i % 17) / 8 - 1;
  for (int step = 0; step < 2; ++step) REQUIRE(source.TrainStep(batch).ok());
  REQUIRE(source.SaveWeights(directory.File("w")).ok());
  const Program program = Lower(graph, {}, device->description()).value();
  const NamedValues weights = ReadWeights(directory.File("w"), program).value();
  REQUIRE(nets::WriteOnnx(directory.File("n.onnx"), graph, weights).ok());

  const OnnxModel read = nets::ReadOnnx(directory.File("n.onnx"), {.batch = 4}).value();
  Session session = CreateSession(read.graph, *device, {}).value();
  REQUIRE(session.LoadWeights(read.weights).ok());
  CHECK(session.Predict(batch.images)->probabilities ==
        source.Predict(batch.images)->probabilities);
}

// What is read from the file of a network has the same layers, with the same names and inputs.
void CheckSameLayers(const Graph& net) {
  const ScratchDirectory directory;
  REQUIRE(nets::WriteOnnx(directory.File("n.onnx"), net, RandomWeights(net)).ok());
  const absl::StatusOr<OnnxModel> read = nets::ReadOnnx(directory.File("n.onnx"), {.batch = 2});
  REQUIRE_MESSAGE(read.ok(), read.status().ToString());
  REQUIRE(read->graph.layers().size() == net.layers().size());
  for (size_t i = 0; i < net.layers().size(); ++i) {
    CHECK(read->graph.layers()[i].name == net.layers()[i].name);
    CHECK(read->graph.layers()[i].layer == net.layers()[i].layer);
    CHECK(read->graph.layers()[i].inputs == net.layers()[i].inputs);
  }
  CHECK(read->graph.shared() == net.shared());
}

TEST_CASE("layers with fields keep them") {
  Graph net({.name = "n", .batch = 2});
  std::string x = net.Input({2, 8, 8});
  x = net.Add("pool", MaxPool{.kernel = 3, .stride = 2, .ceil_mode = true}, {x});
  x = net.Add("leaky", LeakyRelu{.negative_slope = 0.3F}, {x});
  x = net.Add("clip", Clip{.low = -1, .high = 0.7F}, {x});
  x = net.Add("gate", HardSigmoid{}, {x});
  x = net.Add("silu", Silu{}, {x});
  x = net.Add("gelu", Gelu{}, {x});
  x = net.Add("gelu by tanh", Gelu{Gelu::Approximation::kTanh}, {x});
  x = net.Add("elu", Elu{.alpha = 0.4F}, {x});
  x = net.Add("softplus", Softplus{}, {x});
  x = net.Add("softplus of a multiple", Softplus{.beta = 0.3F}, {x});
  x = net.Add("mish", Mish{}, {x});
  x = net.Add("prelu", Prelu{}, {x});
  x = net.Add("prelu of channels", Prelu{.slopes = 2}, {x});
  x = net.Add("crop", Crop{.size = {2, 3}, .offset = {1, 0}}, {x});
  x = net.Add("up", TransposedConvolution{.out_channels = 3, .kernel = 2}, {x});
  net.PixelLoss(x, SoftmaxCrossEntropy{}, {3, 4});
  CheckSameLayers(net);
}

TEST_CASE("zeros before a layer stay there, and ceil_mode where it makes no difference") {
  Graph net({.name = "n", .batch = 2});
  std::string x = net.Input({2, 8, 8});
  x = net.Add("around", ZeroPad{.top = 1, .left = 1, .bottom = 1, .right = 1}, {x});
  x = net.Add("conv", Convolution{.out_channels = 3, .kernel = 3, .padding = 1}, {x});
  x = net.Add("behind", ZeroPad{.bottom = 1, .right = 1}, {x});
  x = net.Add("average", AveragePool{.kernel = 3, .stride = 2, .ceil_mode = true}, {x});
  x = net.Add("none", ZeroPad{}, {x});
  x = net.Add("one", AveragePool{.kernel = 1, .stride = 1}, {x});
  x = net.Add("left", ZeroPad{.left = 1, .bottom = 1}, {x});
  x = net.Add("mean",
              AveragePool{.kernel = 2, .padding = 1, .count_padding = false, .ceil_mode = true},
              {x});
  x = net.Add("max", MaxPool{.kernel = 2, .stride = 1, .ceil_mode = true}, {x});
  net.PixelLoss(x, SoftmaxCrossEntropy{}, {3, 3});
  CheckSameLayers(net);
}

TEST_CASE("an imported network with uneven padding stays what it is when it is written") {
  const ScratchDirectory directory;
  OnnxBuilder model({2, 2, 8, 8});
  const auto conv = [&](const std::string& x, const std::string& name, const Ints& pads) {
    return model.Node("Conv", {x, model.Random(name + ".weight", {2, 2, 3, 3})},
                      {{"strides", Ints{2, 2}}, {"pads", pads}});
  };
  const std::string padded =
      model.Node("Pad", {"x", model.Integers("pads", {0, 0, 1, 1, 0, 0, 2, 2})});
  const std::string first = conv(padded, "first", {0, 0, 0, 0});
  const std::string second = conv(first, "second", {0, 1, 2, 1});
  const std::string up =
      model.Node("ConvTranspose", {second, model.Random("up.weight", {2, 2, 3, 3})},
                 {{"strides", Ints{2, 2}}, {"pads", Ints{0, 0, 1, 1}}});
  const std::string pool =
      model.Node("MaxPool", {up}, {{"kernel_shape", Ints{2, 2}}, {"pads", Ints{0, 0, 1, 1}}});
  model.EndWithClasses(pool, 2 * 6 * 6);
  const absl::StatusOr<OnnxModel> read = nets::ReadOnnx(model.Write(directory), {.batch = 2});
  REQUIRE_MESSAGE(read.ok(), read.status().ToString());
  CheckSameLayers(read->graph);
}

TEST_CASE("auxiliary classifiers are left out") {
  const ScratchDirectory directory;
  const Graph plain = nets::Build("googlenet", {.batch = 2, .image = 64, .classes = 10}).value();
  const Graph with =
      nets::Build("googlenet", {.batch = 2, .image = 64, .classes = 10, .aux_logits = true})
          .value();
  const std::string path = directory.File("googlenet.onnx");
  REQUIRE(nets::WriteOnnx(path, with, RandomWeights(with)).ok());
  const absl::StatusOr<OnnxModel> read = nets::ReadOnnx(path, {.batch = 2});
  REQUIRE_MESSAGE(read.ok(), read.status().ToString());
  const auto device = CpuDevice::Open().value();
  CHECK(PlanOf(read->graph, *device) == PlanOf(plain, *device));
}

TEST_CASE("scores of whole images are written as vectors") {
  Graph net({.name = "n", .batch = 2});
  std::string x = net.Input({2, 4, 4});
  x = net.Add("pool", GlobalAveragePool{}, {x});
  net.Loss(x, SoftmaxCrossEntropy{});
  const ScratchDirectory directory;
  REQUIRE(nets::WriteOnnx(directory.File("n.onnx"), net, {}).ok());
  onnx_schema::Model model;
  REQUIRE(model.ParseFromString(ReadText(directory.File("n.onnx"))));
  const onnx_schema::ValueInfo& scores = model.graph().output(0);
  CHECK(scores.type().tensor_type().shape().dim_size() == 2);
  const absl::StatusOr<OnnxModel> read = nets::ReadOnnx(directory.File("n.onnx"), {.batch = 2});
  REQUIRE_MESSAGE(read.ok(), read.status().ToString());
  CHECK(read->graph.layers().size() == net.layers().size());
}

TEST_CASE("images follow vectors and vectors images") {
  Graph net({.name = "n", .batch = 2});
  std::string x = net.Input({2, 4, 4});
  x = net.Add("fc1", FullyConnected{.out_features = 6}, {x});
  x = net.Add("bn", BatchNorm{}, {x});
  const std::string y = net.Add("conv", Convolution{.out_channels = 6}, {x});
  x = net.Add("sum", neap::Add{}, {y, x});
  x = net.Add("fc2", FullyConnected{.out_features = 3, .bias = false}, {x});
  net.Loss(x, SoftmaxCrossEntropy{});
  const ScratchDirectory directory;
  const NamedValues weights = RandomWeights(net);
  REQUIRE(nets::WriteOnnx(directory.File("n.onnx"), net, weights).ok());
  const absl::StatusOr<OnnxModel> read = nets::ReadOnnx(directory.File("n.onnx"), {.batch = 2});
  REQUIRE_MESSAGE(read.ok(), read.status().ToString());
  CHECK(read->weights == weights);
  const auto device = CpuDevice::Open().value();
  CHECK(PlanOf(read->graph, *device) == PlanOf(net, *device));
}

TEST_CASE("a vector is added to images as one value for each channel") {
  Graph net({.name = "n", .batch = 2});
  const std::string x = net.Input({2, 4, 4});
  const std::string y = net.Add("conv", Convolution{.out_channels = 6}, {x});
  const std::string vector = net.Add("fc1", FullyConnected{.out_features = 6}, {x});
  const std::string sum = net.Add("sum", neap::Add{}, {y, vector});
  net.Loss(net.Add("fc2", FullyConnected{.out_features = 3}, {sum}), SoftmaxCrossEntropy{});
  const ScratchDirectory directory;
  const NamedValues weights = RandomWeights(net);
  REQUIRE(nets::WriteOnnx(directory.File("n.onnx"), net, weights).ok());
  const absl::StatusOr<OnnxModel> read = nets::ReadOnnx(directory.File("n.onnx"), {.batch = 2});
  REQUIRE_MESSAGE(read.ok(), read.status().ToString());
  CHECK(read->weights == weights);
  const auto device = CpuDevice::Open().value();
  CHECK(PlanOf(read->graph, *device) == PlanOf(net, *device));
}

// A matrix product and a convolution, which share a weight of 3 x 3.
Graph SharesWithConvolution(bool is_first_owner) {
  Graph net({.name = "n", .batch = 2});
  std::string x = net.Input({3, 1, 1});
  x = net.Add("fc", FullyConnected{.out_features = 3}, {x});
  x = net.Add("conv", Convolution{.out_channels = 3, .bias = false}, {x});
  net.Loss(net.Add("scores", FullyConnected{.out_features = 2}, {x}), SoftmaxCrossEntropy{});
  const std::string first = "fc.weight", second = "conv.weight";
  net.Share(is_first_owner ? second : first, is_first_owner ? first : second);
  return net;
}

// The position of the node in the file.
int IndexOf(const std::string& node, const onnx_schema::Graph& graph) {
  for (int i = 0; i < graph.node_size(); ++i) {
    if (graph.node(i).name() == node) return i;
  }
  FAIL("no node ", node);
  return 0;
}

TEST_CASE("a weight that a matrix product and a convolution share has the shape that each needs") {
  for (const bool is_first_owner : {true, false}) {
    CAPTURE(is_first_owner);
    const Graph net = SharesWithConvolution(is_first_owner);
    const std::string owner = is_first_owner ? "fc" : "conv",
                      other = is_first_owner ? "conv" : "fc";
    NamedValues weights = RandomWeights(net);
    weights.erase(other + ".weight");
    const ScratchDirectory directory;
    const std::string path = directory.File("n.onnx");
    REQUIRE(nets::WriteOnnx(path, net, weights).ok());
    onnx_schema::Model model;
    REQUIRE(model.ParseFromString(ReadText(path)));
    const onnx_schema::Graph& graph = model.graph();
    CHECK(graph.node(IndexOf(owner, graph)).input(1) == owner + ".weight");
    const int reader = IndexOf(other, graph);
    const int reshape = IndexOf(graph.node(reader).input(1), graph);
    CHECK(reshape < reader);
    CHECK(graph.node(reshape).op_type() == "Reshape");
    CHECK(graph.node(reshape).input(0) == owner + ".weight");
    for (const onnx_schema::Tensor& tensor : graph.initializer()) {
      CHECK(tensor.name() != other + ".weight");
      if (tensor.name() == owner + ".weight") CHECK(tensor.dims_size() == (is_first_owner ? 2 : 4));
    }

    CheckSameLayers(net);
    const absl::StatusOr<OnnxModel> read = nets::ReadOnnx(path, {.batch = 2});
    REQUIRE_MESSAGE(read.ok(), read.status().ToString());
    CHECK(read->weights == weights);
    CHECK(read->notices.empty());
    const auto device = CpuDevice::Open().value();
    const std::vector<float> images = {1, -2, 3, 0.5F, 0.25F, -1};
    std::vector<std::vector<float>> predicted;
    for (const Graph* const trained : {&net, &read->graph}) {
      Session session = CreateSession(*trained, *device, {}).value();
      REQUIRE(session.LoadWeights(weights).ok());
      predicted.push_back(session.Predict(images)->probabilities);
    }
    CHECK(predicted[0] == predicted[1]);

    weights[owner + ".weight"].assign(9, 0.5F);  // as a copy that an exporter makes of another
    REQUIRE(nets::WriteOnnx(path, net, weights).ok());
    const absl::StatusOr<OnnxModel> equal = nets::ReadOnnx(path, {.batch = 2});
    REQUIRE_MESSAGE(equal.ok(), equal.status().ToString());
    CHECK(equal->graph.shared() == net.shared());
    CHECK(equal->weights == weights);
  }
}

TEST_CASE("layers that share parameters keep their names, whatever these are") {
  Graph net({.name = "n", .batch = 2});
  std::string x = net.Input({3, 4, 4});
  x = net.Add("/first/conv", Convolution{.out_channels = 3, .kernel = 3, .padding = 1}, {x});
  x = net.Add("second.Conv", Convolution{.out_channels = 3, .kernel = 3, .padding = 1}, {x});
  x = net.Add("targets", Relu{}, {x});
  net.PixelLoss(x, SoftmaxCrossEntropy{}, {4, 4});
  net.Share("/first/conv.bias", "second.Conv.bias");
  NamedValues weights = RandomWeights(net);
  weights.erase("/first/conv.bias");
  const ScratchDirectory directory;
  REQUIRE(nets::WriteOnnx(directory.File("n.onnx"), net, weights).ok());
  const absl::StatusOr<OnnxModel> read = nets::ReadOnnx(directory.File("n.onnx"), {.batch = 2});
  REQUIRE_MESSAGE(read.ok(), read.status().ToString());
  CHECK(read->graph.shared() == net.shared());
  CHECK(read->weights == weights);
  const absl::StatusOr<OnnxModel> with_targets =
      nets::ReadOnnx(directory.File("n.onnx"), {.batch = 2, .loss = MeanSquaredError{}});
  REQUIRE_MESSAGE(with_targets.ok(), with_targets.status().ToString());
  const absl::Status resolved = Resolve(with_targets->graph, Mode::kTraining).status();
  CHECK_MESSAGE(resolved.ok(), resolved.ToString());
}

TEST_CASE("a file has several inputs and outputs, which are not read again") {
  Graph net({.name = "n", .batch = 2});
  net.Input("left", {3, 1, 1});
  net.Input("right", {3, 1, 1});
  net.Input("kind", {}, DType::kInt32);
  net.Add("sum", neap::Add{}, {"left", "right"});
  net.Add("scores", FullyConnected{.out_features = 2}, {"sum"});
  net.Loss("kind_loss", SoftmaxCrossEntropy{}, {"scores", "kind"});
  net.Output("sum");
  const ScratchDirectory directory;
  const std::string path = directory.File("n.onnx");
  REQUIRE(nets::WriteOnnx(path, net, RandomWeights(net)).ok());
  onnx_schema::Model model;
  REQUIRE(model.ParseFromString(ReadText(path)));
  CHECK(model.graph().input_size() == 2);
  CHECK(model.graph().output_size() == 2);
  const absl::Status refused = nets::ReadOnnx(path, {.batch = 2}).status();
  CHECK(refused.message().find("the inputs 'left' and 'right'") != std::string::npos);
  CHECK(refused.message().find("the graph has 2 outputs") != std::string::npos);
}

}  // namespace
}  // namespace neap::testing

// Networks of ids in ONNX files.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "neap/layers/convolution.h"
#include "neap/layers/norm/layer_norm.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/layers/tokens/embedding.h"
#include "neap/layers/tokens/linear_cross_entropy.h"
#include "neap/layers/tokens/position_embedding.h"
#include "neap/layers/tokens/prepend_token.h"
#include "neap/nets/onnx/onnx_file.h"
#include "tests/nets/onnx/onnx_builder.h"
#include "tests/nets/onnx/onnx_checks.h"

namespace neap::testing {
namespace {

using nets::OnnxModel;
using nets::ReadOnnx;
using nets::WriteOnnx;

constexpr int64_t kIds = 4, kWords = 9, kTokenWidth = 3;

// A builder whose input is integers.
OnnxBuilder OfIds(const Ints& dims) {
  OnnxBuilder builder(dims);
  builder.graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(
      onnx_schema::Tensor::INT64);
  return builder;
}

std::string RefusalOf(const OnnxBuilder& builder) {
  const ScratchDirectory directory;
  return std::string(ReadOnnx(builder.Write(directory), {.batch = 2}).status().message());
}

TEST_CASE("rows by ids are an embedding, and constants for each position one of positions") {
  OnnxBuilder builder = OfIds({2, kIds});
  const std::string ids = builder.Node("Cast", {"x"}, {{"to", int64_t{7}}});
  std::vector<float> rows, positions;
  for (int i = 0; i < kWords * kTokenWidth; ++i) rows.push_back(static_cast<float>(i));
  for (int i = 0; i < kIds * kTokenWidth; ++i) positions.push_back(static_cast<float>(i));
  std::string y =
      builder.Node("Gather", {builder.Floats("wte.weight", {kWords, kTokenWidth}, rows), ids});
  y = builder.Node("Add", {y, builder.Floats("wpe.weight", {1, kIds, kTokenWidth}, positions)});
  y = builder.Node("Transpose", {y}, {{"perm", Ints{0, 2, 1}}});
  y = builder.Node("Conv", {y, builder.Random("head.weight", {5, kTokenWidth, 1})});
  builder.Output(y);
  const ScratchDirectory directory;
  const absl::StatusOr<OnnxModel> model =
      ReadOnnx(builder.Write(directory), {.batch = 3, .layout = Layout::kChannelsLast});
  REQUIRE_MESSAGE(model.ok(), model.status().ToString());
  const std::vector<GraphLayer>& layers = model->graph.layers();
  REQUIRE(layers.size() == 6);  // and the labels and the loss
  CHECK(layers[1].name == "wte");
  CHECK(layers[1].layer == Layer(Embedding{.vocabulary = kWords, .channels = kTokenWidth}));
  CHECK(layers[2].name == "wpe");
  CHECK(layers[2].layer == Layer(PositionEmbedding{}));
  CHECK(model->weights.at("wte.weight") == rows);
  const std::vector<float> by_channel = {0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11};
  CHECK(model->weights.at("wpe.weight") == by_channel);
  const ResolvedGraph resolved = Resolve(model->graph, Mode::kTraining).value();
  CHECK(resolved.layers[0].spec.output.ToString() == "3x4 int32 nchw");
  CHECK(resolved.layers[1].spec.output.ToString() == "3x3x4 fp32 nwc");
  CHECK(resolved.layers.back().inputs.size() == 2);
}

TEST_CASE("networks of ids are read as they were written") {
  Graph net({.name = "words", .batch = 2});
  net.Input("input", {kIds}, DType::kInt32);
  std::string x =
      net.Add("wte", Embedding{.vocabulary = kWords, .channels = kTokenWidth}, {"input"});
  x = net.Add("wpe", PositionEmbedding{}, {x});
  x = net.Add("norm", LayerNorm{}, {x});
  x = net.Add("head", LinearOfTokens(kWords, /*bias=*/false), {x});
  net.PixelLoss(x, SoftmaxCrossEntropy{}, {kIds});
  const ResolvedGraph resolved = Resolve(net, Mode::kTraining).value();
  NamedValues weights;
  for (const ResolvedLayer& layer : resolved.layers) {
    for (const ParamSpec& param : layer.spec.params) {
      std::vector<float>& values = weights[ParamName(layer, param)];
      for (int64_t i = 0; i < param.tensor.elements(); ++i)
        values.push_back(static_cast<float>(i % 7) / 4);
    }
  }
  const ScratchDirectory directory;
  const absl::Status written = WriteOnnx(directory.File("words.onnx"), net, weights);
  REQUIRE_MESSAGE(written.ok(), written.ToString());
  const absl::StatusOr<OnnxModel> model = ReadOnnx(directory.File("words.onnx"), {.batch = 2});
  REQUIRE_MESSAGE(model.ok(), model.status().ToString());
  CHECK(model->graph.layers() == net.layers());
  CHECK(model->weights == weights);
}

TEST_CASE("a loss that makes the logits is written as their product, also with a shared weight") {
  for (const bool is_tied : {false, true}) {
    Graph net({.name = "words", .batch = 2, .layout = Layout::kChannelsLast});
    net.Input("input", {kIds}, DType::kInt32);
    net.Input("labels", {kIds}, DType::kInt32);
    net.Add("wte", Embedding{.vocabulary = kWords, .channels = kTokenWidth}, {"input"});
    net.Add("wpe", PositionEmbedding{}, {"wte"});
    const LinearCrossEntropy loss = {.classes = kWords, .bias = !is_tied};
    net.Loss("head", loss, {"wpe", "labels"});
    if (is_tied) net.Share("head.weight", "wte.weight");
    NamedValues weights;
    for (const auto& [name, count] : {std::pair("wte.weight", kWords * kTokenWidth),
                                      {"wpe.weight", kTokenWidth * kIds},
                                      {"head.weight", kWords * kTokenWidth},
                                      {"head.bias", kWords}}) {
      if (is_tied && std::string(name).find("head") == 0) continue;
      for (int64_t i = 0; i < count; ++i)
        weights[name].push_back(static_cast<float>((i + count) % 7) / 4);
    }
    const ScratchDirectory directory;
    const absl::Status written = WriteOnnx(directory.File("words.onnx"), net, weights);
    REQUIRE_MESSAGE(written.ok(), written.ToString());
    const absl::StatusOr<OnnxModel> model = ReadOnnx(directory.File("words.onnx"), {.batch = 2});
    REQUIRE_MESSAGE(model.ok(), model.status().ToString());
    CHECK(model->weights.at("wte.weight") == weights.at("wte.weight"));
    if (!is_tied) CHECK(model->weights == weights);
    const std::vector<GraphLayer>& layers = model->graph.layers();
    const GraphLayer logits = {
        .name = "head", .layer = LinearOfTokens(kWords, !is_tied), .inputs = {"wpe"}};
    CHECK(std::count(layers.begin(), layers.end(), logits) == 1);
  }
}

TEST_CASE("other uses of ids are refused by name, and a token in front is written") {
  OnnxBuilder sum = OfIds({2, kIds});
  const std::string table = sum.Random("t", {kWords, kTokenWidth});
  sum.Output(sum.Node("Add", {sum.Node("Gather", {table, "x"}), "x"}));
  CHECK(RefusalOf(sum).find("has ids, which only a Gather reads") != std::string::npos);
  OnnxBuilder columns = OfIds({2, kIds});
  columns.Output(columns.Node("Gather", {columns.Random("t", {kWords, kTokenWidth}), "x"},
                              {{"axis", int64_t{1}}}));
  CHECK(RefusalOf(columns).find("it takes entries along axis 1 of 9x3; rows of a matrix are "
                                "needed") != std::string::npos);

  Graph net({.name = "words", .batch = 2});
  net.Input("input", {kIds}, DType::kInt32);
  net.Input("next", {kIds + 1}, DType::kInt32);
  std::string x =
      net.Add("wte", Embedding{.vocabulary = kWords, .channels = kTokenWidth}, {"input"});
  x = net.Add("token", PrependToken{}, {x});
  net.Loss("loss", SoftmaxCrossEntropy{}, {x, "next"});
  NamedValues weights;
  weights["wte.weight"].assign(kWords * kTokenWidth, 0.5F);
  weights["token.weight"].assign(kTokenWidth, 0.25F);
  const ScratchDirectory directory;
  const std::string path = directory.File("words.onnx");
  const absl::Status written = WriteOnnx(path, net, weights);
  REQUIRE_MESSAGE(written.ok(), written.ToString());
  const absl::StatusOr<OnnxModel> model = ReadOnnx(path, {.batch = 2});
  REQUIRE_MESSAGE(model.ok(), model.status().ToString());
  CHECK(model->graph.layers()[2].layer == Layer(PrependToken{}));
  CHECK(model->weights == weights);
}

}  // namespace
}  // namespace neap::testing

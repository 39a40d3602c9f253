// Parts of ONNX graphs between two transposes, in which the channels are the last axis.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/layers/activation.h"
#include "neap/layers/convolution.h"
#include "neap/layers/join.h"
#include "neap/layers/norm/layer_norm.h"
#include "neap/layers/prelu.h"
#include "neap/nets/onnx/onnx_file.h"
#include "tests/nets/onnx/onnx_builder.h"
#include "tests/nets/onnx/onnx_checks.h"
#include "tests/scratch_directory.h"

namespace neap::testing {
namespace {

using nets::OnnxModel;
using nets::ReadOnnx;

constexpr int64_t kChannels = 6, kHeight = 5, kWidth = 4;

// A model of images {1, 6, 5, 4}, whose nodes are called as exporters of PyTorch do.
class LastModel {
 public:
  LastModel() : model_({1, kChannels, kHeight, kWidth}) {}
  OnnxBuilder& model() { return model_; }
  std::string Node(const std::string& module, const std::string& op,
                   const std::vector<std::string>& inputs, const Attributes& attributes = {}) {
    std::string value = model_.Node(op, inputs, attributes);
    const int last = model_.graph().node_size() - 1;
    model_.graph().mutable_node(last)->set_name(absl::StrCat("/", module, "/", op));
    return value;
  }
  std::string Last(const std::string& x) {
    return Node("blocks", "Transpose", {x}, {{"perm", Ints{0, 2, 3, 1}}});
  }
  std::string Second(const std::string& x) {
    return Node("blocks", "Transpose", {x}, {{"perm", Ints{0, 3, 1, 2}}});
  }
  // torch.nn.Linear of {N, H, W, C}; its weight is transposed in the file.
  std::string Linear(const std::string& module, const std::string& x, int64_t in, int64_t out) {
    const std::string product =
        Node(module, "MatMul", {x, model_.Random("onnx::MatMul_" + module, {in, out})});
    return Node(module, "Add", {model_.Random(module + ".bias", {out}), product});
  }
  std::string Gelu(const std::string& x) {
    const std::string erf =
        Node("act", "Erf", {Node("act", "Div", {x, model_.Scalar("root" + x, std::sqrt(2.0F))})});
    const std::string sum = Node("act", "Add", {erf, model_.Scalar("one" + x, 1)});
    return Node("act", "Mul", {Node("act", "Mul", {x, sum}), model_.Scalar("half" + x, 0.5F)});
  }
  void End(const std::string& y, int64_t channels = kChannels) {
    model_.EndWithClasses(y, channels * kHeight * kWidth);
  }

 private:
  OnnxBuilder model_;
};

OnnxModel ReadLast(const OnnxBuilder& model) {
  const ScratchDirectory directory;
  absl::StatusOr<OnnxModel> read = ReadOnnx(model.Write(directory), {.batch = 2});
  REQUIRE_MESSAGE(read.ok(), read.status().ToString());
  return *std::move(read);
}

std::vector<std::string> NamesAndTypes(const OnnxModel& read) {
  std::vector<std::string> all;
  for (const GraphLayer& layer : read.graph.layers())
    all.push_back(absl::StrCat(layer.name, " ", std::string(layer.layer.type())));
  return all;
}

// ConvNeXt's block, with its factors for each channel in either layout.
void CheckBlock(bool scales_last) {
  CAPTURE(scales_last);
  LastModel given;
  OnnxBuilder& model = given.model();
  const std::string conv = given.Node("conv_dw", "Conv",
                                      {"x", model.Random("conv_dw.weight", {kChannels, 1, 3, 3}),
                                       model.Random("conv_dw.bias", {kChannels})},
                                      {{"pads", Ints{1, 1, 1, 1}}, {"group", kChannels}});
  std::string y = given.Node("norm", "LayerNormalization",
                             {given.Last(conv), model.Random("norm.weight", {kChannels}),
                              model.Random("norm.bias", {kChannels})},
                             {{"axis", int64_t{-1}}, {"epsilon", 1e-3F}});
  y = given.Linear("fc1", y, kChannels, 8);
  y = given.Linear("fc2", given.Gelu(y), 8, kChannels);
  const auto scale = [&](const Ints& dims) {
    return given.Node("scale", "Mul", {y, model.Random("gamma", dims)});
  };
  if (scales_last) y = scale({kChannels});
  y = given.Second(y);
  if (!scales_last) y = scale({1, kChannels, 1, 1});
  given.End(given.Node("sum", "Add", {y, "x"}));

  const OnnxModel read = ReadLast(model);
  CHECK(NamesAndTypes(read) ==
        std::vector<std::string>{"input feed", "conv_dw convolution", "norm layer_norm",
                                 "fc1 convolution", "act.Mul gelu", "fc2 convolution",
                                 "scale scale_shift", "sum.Add add", "classes fully_connected",
                                 "labels feed", "loss softmax_cross_entropy"});
  CHECK(read.graph.layers()[3].layer == Layer(Convolution{.out_channels = 8}));
  CheckPredicts(model, {1, kChannels, kHeight, kWidth});
  CheckPredicts(model, {1, kChannels, kHeight, kWidth}, Layout::kChannelsLast);
}

TEST_CASE("the layers of ConvNeXt's block are read where the channels are the last axis") {
  CheckBlock(/*scales_last=*/true);
  CheckBlock(/*scales_last=*/false);
}

TEST_CASE("the matrix of a product with the last axis becomes a kernel of one pixel") {
  LastModel given;
  const std::string weight =
      given.model().Floats("m", {6, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  given.End(given.Second(given.Node("fc", "MatMul", {given.Last("x"), weight})), 2);
  const OnnxModel read = ReadLast(given.model());
  CHECK(read.graph.layers()[1].layer == Layer(Convolution{.out_channels = 2, .bias = false}));
  CHECK(read.weights.at("fc.weight") == std::vector<float>{1, 3, 5, 7, 9, 11, 2, 4, 6, 8, 10, 12});

  LastModel computed;  // of a constant that a node makes
  const std::string doubled = computed.model().Node(
      "Add", {computed.model().Random("w", {6, 2}), computed.model().Scalar("two", 2)});
  computed.End(computed.Second(computed.Node("fc", "MatMul", {computed.Last("x"), doubled})), 2);
  CheckPredicts(computed.model(), {1, kChannels, kHeight, kWidth});
}

TEST_CASE("operators on elements, sums and concatenations take channels of either axis") {
  LastModel given;
  OnnxBuilder& model = given.model();
  const std::string x = given.Last("x");
  const std::string gate = given.Node("gate", "Sigmoid", {x});
  std::string y = given.Node("silu", "Mul", {x, gate});
  y = given.Node("slopes", "PRelu", {y, model.Random("slopes.weight", {kChannels})});
  for (const char* const op : {"Relu", "LeakyRelu", "Elu", "Softplus", "Tanh", "HardSwish"})
    y = given.Node(op, op, {y});
  y = given.Node("dropout", "Dropout", {given.Node("sum", "Add", {y, x})});
  y = given.Node("difference", "Sub", {y, model.Scalar("shift", 0.25F)});
  y = given.Node("concat", "Concat", {y, x}, {{"axis", int64_t{-1}}});
  given.End(given.Second(y), 2 * kChannels);
  const OnnxModel read = ReadLast(model);
  CHECK(read.graph.layers()[1].layer == Layer(Silu{}));
  CheckPredicts(model, {1, kChannels, kHeight, kWidth});
}

std::string LastRefusal(const OnnxBuilder& model) {
  const ScratchDirectory directory;
  return std::string(ReadOnnx(model.Write(directory), {.batch = 2}).status().message());
}

TEST_CASE("images of both layouts are not combined, and others than channels are moved") {
  LastModel mixed;
  mixed.End(mixed.Node("sum", "Add", {mixed.Last("x"), "x"}));
  CHECK(LastRefusal(mixed.model()).find("has other axes than the first input") !=
        std::string::npos);
  LastModel width;
  width.End(width.Node("fc", "MatMul", {"x", width.model().Random("w", {kWidth, kWidth})}));
  const std::vector<std::string> moved = NamesAndTypes(ReadLast(width.model()));
  CHECK(moved[1] == "fc.MatMul_divided reshape");  // one spatial axis, of all others
  CHECK(moved[2] == "fc.MatMul_permuted permute");
  CHECK(moved[3] == "fc convolution");
  LastModel windows;
  const std::string pooled = windows.Node("pool", "GlobalAveragePool", {windows.Last("x")});
  windows.model().EndWithClasses(pooled, kHeight);
  CHECK(NamesAndTypes(ReadLast(windows.model()))[1] == "blocks.Transpose permute");
}

}  // namespace
}  // namespace neap::testing

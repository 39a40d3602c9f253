// Transformers in ONNX files, as PyTorch's exporter writes them, and as neap does.
#include "neap/layers/attention/attention.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/layers/convolution.h"
#include "neap/layers/target_loss.h"
#include "neap/layers/tokens/position_embedding.h"
#include "neap/layers/tokens/prepend_token.h"
#include "neap/nets/onnx/onnx_file.h"
#include "tests/nets/onnx/onnx_builder.h"
#include "tests/nets/onnx/onnx_checks.h"
#include "tests/scratch_directory.h"

namespace neap::testing {
namespace {

using nets::OnnxModel;
using nets::ReadOnnx;
using nets::WriteOnnx;

constexpr int64_t kSize = 8, kPatch = 4, kModelWidth = 6, kAttentionHeads = 2, kDims = 3,
                  kClasses = 5;
constexpr int64_t kPatches = 4, kTokens = 5;

// A vision transformer of a batch of one image {1, 3, 8, 8}.
class Vit {
 public:
  Vit() : model_({1, 3, kSize, kSize}) {}
  OnnxBuilder& model() { return model_; }
  std::string Node(const std::string& op, const std::vector<std::string>& inputs,
                   const Attributes& attributes = {}) {
    return model_.Node(op, inputs, attributes);
  }
  std::string Ints64(const Ints& values) {
    return model_.Integers(absl::StrCat("ints", count_++), values);
  }
  std::string Number(float value) { return model_.Scalar(absl::StrCat("n", count_++), value); }
  std::string Reshape(const std::string& x, const Ints& dims) {
    return Node("Reshape", {x, Ints64(dims)});
  }
  std::string Transpose(const std::string& x, const Ints& order) {
    return Node("Transpose", {x}, {{"perm", order}});
  }
  std::string Linear(const std::string& name, const std::string& x, int64_t in, int64_t out) {
    const std::string product = Node("MatMul", {x, model_.Random(name + ".matrix", {in, out})});
    return Node("Add", {model_.Random(name + ".bias", {out}), product});
  }
  std::string Norm(const std::string& name, const std::string& x) {
    return Node("LayerNormalization", {x, model_.Random(name + ".weight", {kModelWidth}),
                                       model_.Random(name + ".bias", {kModelWidth})});
  }
  // {1, 4, 6}
  std::string Patches() {
    const std::string conv =
        Node("Conv",
             {"x", model_.Random("patch.weight", {kModelWidth, 3, kPatch, kPatch}),
              model_.Random("patch.bias", {kModelWidth})},
             {{"strides", Ints{kPatch, kPatch}}});
    return Transpose(Reshape(conv, {1, kModelWidth, -1}), {0, 2, 1});
  }
  // {1, 5, 6}
  std::string WithClassToken(const std::string& x) {
    const std::string token = Node(
        "Expand", {model_.Random("cls_token", {1, 1, kModelWidth}), Ints64({1, 1, kModelWidth})});
    const std::string all = Node("Concat", {token, x}, {{"axis", int64_t{1}}});
    return Node("Add", {all, model_.Random("pos_embed", {1, kTokens, kModelWidth})});
  }
  // query, key and value {windows, 2, T, 3} of one product, each the entry of a Gather.
  std::vector<std::string> HeadsOf(const std::string& x, int64_t tokens, int64_t windows = 1) {
    std::string qkv = Linear("qkv", x, kModelWidth, 3 * kModelWidth);
    qkv = Transpose(Reshape(qkv, {windows, tokens, 3, kAttentionHeads, kDims}), {2, 0, 3, 1, 4});
    std::vector<std::string> parts;
    for (const int64_t i : {0, 1, 2}) {
      const std::string index = absl::StrCat("index", i);
      onnx_schema::Tensor& tensor = *model_.graph().add_initializer();
      tensor.set_name(index);
      tensor.set_data_type(onnx_schema::Tensor::INT64);
      tensor.add_int64_data(i);
      parts.push_back(Node("Gather", {qkv, index}, {{"axis", int64_t{0}}}));
    }
    return parts;
  }
  std::string Joined(const std::string& y, int64_t tokens, int64_t windows = 1) {
    return Linear("proj", Reshape(Transpose(y, {0, 2, 1, 3}), {windows, tokens, kModelWidth}),
                  kModelWidth, kModelWidth);
  }
  void End(const std::string& x) {
    model_.Output(Node("Gemm", {x, model_.Random("head.weight", {kClasses, kModelWidth})},
                       {{"transB", int64_t{1}}}));
  }

 private:
  OnnxBuilder model_;
  int count_ = 0;
};

OnnxModel ReadVit(const OnnxBuilder& model) {
  const ScratchDirectory directory;
  absl::StatusOr<OnnxModel> read =
      ReadOnnx(model.Write(directory), {.batch = 2, .loss = MeanSquaredError{}});
  REQUIRE_MESSAGE(read.ok(), read.status().ToString());
  return *std::move(read);
}

std::vector<const GraphLayer*> LayersOf(const OnnxModel& model, std::string_view type) {
  std::vector<const GraphLayer*> found;
  for (const GraphLayer& layer : model.graph.layers()) {
    if (layer.layer.type() == type) found.push_back(&layer);
  }
  return found;
}

// What neap computes of two images is what the graph computes of each.
void CheckImages(OnnxBuilder& model) { CheckArrays(model, 2); }

TEST_CASE("a vision transformer with a class token is read as its layers") {
  Vit vit;
  const std::string x = vit.WithClassToken(vit.Patches());
  const std::vector<std::string> parts = vit.HeadsOf(vit.Norm("norm1", x), kTokens);
  const std::string query = vit.Node("Mul", {parts[0], vit.Number(1 / std::sqrt(3.0F))});
  std::string y = vit.Node("MatMul", {query, vit.Transpose(parts[1], {0, 1, 3, 2})});
  y = vit.Node("MatMul", {vit.Node("Softmax", {y}, {{"axis", int64_t{-1}}}), parts[2]});
  y = vit.Norm("norm", vit.Node("Add", {x, vit.Joined(y, kTokens)}));
  vit.End(vit.Node("Gather", {y, "index0"}, {{"axis", int64_t{1}}}));
  const OnnxModel read = ReadVit(vit.model());
  REQUIRE(LayersOf(read, "attention").size() == 1);
  const GraphLayer& attention = *LayersOf(read, "attention")[0];
  CHECK(attention.layer == Layer(Attention{.heads = kAttentionHeads}));
  CHECK(attention.inputs.size() == 1);
  REQUIRE(LayersOf(read, "prepend_token").size() == 1);
  CHECK(LayersOf(read, "position_embedding").size() == 1);
  CHECK(LayersOf(read, "permute").empty());
  CHECK(LayersOf(read, "channel_slice").empty());
  CheckImages(vit.model());
}

// query and key each times the root of the scale, as PyTorch writes its fused attention; a bias of
// each head; no class token, and the mean over the patches.
TEST_CASE("a fused attention with a bias of each head is one layer of the patches") {
  Vit vit;
  const std::string x = vit.Patches();
  const std::vector<std::string> parts = vit.HeadsOf(x, kPatches);
  const std::string root = vit.Number(std::sqrt(0.25F));
  const std::string query = vit.Node("Mul", {parts[0], root});
  const std::string key = vit.Node("Mul", {vit.Transpose(parts[1], {0, 1, 3, 2}), root});
  std::string y = vit.Node("MatMul", {query, key});
  y = vit.Node("Add", {y, vit.model().Random("bias", {1, kAttentionHeads, kPatches, kPatches})});
  y = vit.Node("MatMul", {vit.Node("Softmax", {y}, {{"axis", int64_t{-1}}}), parts[2]});
  y = vit.Node("Add", {x, vit.Joined(y, kPatches)});
  vit.End(vit.Node("ReduceMean", {y}, {{"axes", Ints{1}}, {"keepdims", int64_t{0}}}));
  const OnnxModel read = ReadVit(vit.model());
  REQUIRE(LayersOf(read, "attention").size() == 1);
  CHECK(LayersOf(read, "attention")[0]->layer ==
        Layer(Attention{.heads = kAttentionHeads, .scale = 0.25F, .learned_bias = true}));
  CHECK(LayersOf(read, "reshape").empty());
  CheckImages(vit.model());
}

constexpr int64_t kGrid = 4, kWindow = 2, kWindows = 4, kInWindow = 4;  // windows of 2x2 of 4x4
const Ints kDividedGrid = {1, kGrid / kWindow, kWindow, kGrid / kWindow, kWindow, kModelWidth};
const Ints kSwappedAxes = {0, 1, 3, 2, 4, 5};

// A block of a Swin transformer, as exporters write it: windows as images, a bias of each head and
// a mask of each window. {1, 4, 4, 6}
std::string SwinBlock(Vit& vit) {
  const std::string conv =
      vit.Node("Conv", {"x", vit.model().Random("patch.weight", {kModelWidth, 3, 2, 2})},
               {{"strides", Ints{2, 2}}});
  const std::string x = vit.Transpose(conv, {0, 2, 3, 1});
  std::string y = vit.Transpose(vit.Reshape(x, kDividedGrid), kSwappedAxes);
  y = vit.Reshape(y, {kWindows, kInWindow, kModelWidth});
  const std::vector<std::string> parts = vit.HeadsOf(y, kInWindow, kWindows);
  y = vit.Node("Mul", {parts[0], vit.Number(1 / std::sqrt(3.0F))});
  y = vit.Node("MatMul", {y, vit.Transpose(parts[1], {0, 1, 3, 2})});
  y = vit.Node("Add", {y, vit.model().Random("bias", {1, kAttentionHeads, kInWindow, kInWindow})});
  y = vit.Reshape(y, {1, kWindows, kAttentionHeads, kInWindow, kInWindow});
  y = vit.Node("Add", {y, vit.model().Random("mask", {1, kWindows, 1, kInWindow, kInWindow})});
  y = vit.Reshape(y, {kWindows, kAttentionHeads, kInWindow, kInWindow});
  y = vit.Node("MatMul", {vit.Node("Softmax", {y}, {{"axis", int64_t{-1}}}), parts[2]});
  y = vit.Joined(y, kInWindow, kWindows);
  y = vit.Reshape(y, {1, kGrid / kWindow, kGrid / kWindow, kWindow, kWindow, kModelWidth});
  y = vit.Reshape(vit.Transpose(y, kSwappedAxes), {1, kGrid, kGrid, kModelWidth});
  return vit.Node("Add", {x, y});
}

// Four positions as channels of one, {1, 2, 2, 24}: slices that are joined, as in torchvision.
std::string MergedBySlices(Vit& vit, const std::string& x) {
  const std::string end = vit.Ints64({kGrid}), two = vit.Ints64({2});
  std::vector<std::string> slices;
  for (const auto& [row, column] : {std::pair{0, 0}, {1, 0}, {0, 1}, {1, 1}}) {
    const std::string rows = vit.Node("Slice", {x, vit.Ints64({row}), end, vit.Ints64({1}), two});
    slices.push_back(vit.Node("Slice", {rows, vit.Ints64({column}), end, vit.Ints64({2}), two}));
  }
  return vit.Node("Concat", slices, {{"axis", int64_t{3}}});
}

// The same by a transpose, as in timm.
std::string MergedByTranspose(Vit& vit, const std::string& x) {
  const std::string divided = vit.Reshape(x, kDividedGrid);
  return vit.Reshape(vit.Transpose(divided, {0, 1, 3, 4, 2, 5}), {1, 2, 2, 4 * kModelWidth});
}

TEST_CASE("windows of an image are heads of one attention, and positions merge into channels") {
  for (const auto merged : {MergedBySlices, MergedByTranspose}) {
    Vit vit;
    std::string y = merged(vit, SwinBlock(vit));
    y = vit.Linear("reduction", y, 4 * kModelWidth, kModelWidth);
    vit.End(vit.Node("ReduceMean", {y}, {{"axes", Ints{1, 2}}, {"keepdims", int64_t{0}}}));
    const OnnxModel read = ReadVit(vit.model());
    REQUIRE(LayersOf(read, "attention").size() == 1);
    CHECK(LayersOf(read, "attention")[0]->layer ==
          Layer(Attention{.heads = kWindows * kAttentionHeads, .learned_bias = true}));
    CheckImages(vit.model());
  }
}

TEST_CASE("an attention of values before the transposed weights is one layer") {
  Vit vit;
  const std::string x = vit.Patches();
  std::vector<std::string> parts = vit.HeadsOf(x, kPatches);
  for (std::string& part : parts) part = vit.Transpose(part, {0, 1, 3, 2});
  std::string y = vit.Node("MatMul", {vit.Transpose(parts[0], {0, 1, 3, 2}), parts[1]});
  y = vit.Node("Softmax", {y}, {{"axis", int64_t{-1}}});
  y = vit.Node("MatMul", {parts[2], vit.Transpose(y, {0, 1, 3, 2})});
  y = vit.Node("Add", {x, vit.Joined(vit.Transpose(y, {0, 1, 3, 2}), kPatches)});
  vit.End(vit.Node("ReduceMean", {y}, {{"axes", Ints{1}}, {"keepdims", int64_t{0}}}));
  const OnnxModel read = ReadVit(vit.model());
  CHECK(LayersOf(read, "attention").size() == 1);
  CHECK(LayersOf(read, "permute").empty());
  CheckImages(vit.model());
}

// x cos + rotated(x) sin for each position and dimension, as timm rotates queries and keys.
TEST_CASE("constants for each position and dimension of all heads are one layer") {
  Vit vit;
  constexpr int64_t kWide = 4;
  const std::string patches = vit.Patches();
  const std::string wide = vit.Linear("qkv", patches, kModelWidth, kAttentionHeads * kWide);
  const std::string heads =
      vit.Transpose(vit.Reshape(wide, {1, kPatches, kAttentionHeads, kWide}), {0, 2, 1, 3});
  const auto every_second = [&](int64_t first) {
    const std::vector<std::string> from = {heads, vit.Ints64({first}), vit.Ints64({1000}),
                                           vit.Ints64({3}), vit.Ints64({2})};
    return vit.Reshape(vit.Node("Slice", from), {1, kAttentionHeads, kPatches, kWide / 2, 1});
  };
  std::string rotated = vit.Node("Concat", {vit.Node("Neg", {every_second(1)}), every_second(0)},
                                 {{"axis", int64_t{4}}});
  rotated = vit.Reshape(rotated, {1, kAttentionHeads, kPatches, kWide});
  const std::string cos = vit.Node("Mul", {heads, vit.model().Random("cos", {kPatches, kWide})});
  const std::string sin = vit.Node("Mul", {rotated, vit.model().Random("sin", {kPatches, kWide})});
  const std::string y = vit.Transpose(vit.Node("Add", {cos, sin}), {0, 2, 1, 3});
  vit.End(vit.Node("ReduceMean",
                   {vit.Linear("proj", vit.Reshape(y, {1, kPatches, kAttentionHeads * kWide}),
                               kAttentionHeads * kWide, kModelWidth)},
                   {{"axes", Ints{1}}, {"keepdims", int64_t{0}}}));
  CHECK(LayersOf(ReadVit(vit.model()), "scale_shift").size() == 3);
  CheckImages(vit.model());
}

// The dimensions attend to each other, as in XCiT: rows of unit length, and a number for each head.
TEST_CASE("queries and keys of unit length, and numbers of heads, become layers") {
  Vit vit;
  const std::string x = vit.Patches();
  std::vector<std::string> parts = vit.HeadsOf(x, kPatches);
  for (std::string& part : parts) part = vit.Transpose(part, {0, 1, 3, 2});
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const std::string length =
        vit.Node("ReduceL2", {parts[i]}, {{"axes", Ints{-1}}, {"keepdims", int64_t{1}}});
    const std::string positive = vit.Node("Clip", {length, vit.Number(1e-12F)});
    const std::string repeated =
        vit.Node("Expand", {positive, vit.Ints64({1, kAttentionHeads, kDims, kPatches})});
    parts[i] = vit.Node("Div", {parts[i], repeated});
  }
  std::string y = vit.Node("MatMul", {parts[0], vit.Transpose(parts[1], {0, 1, 3, 2})});
  y = vit.Node("Mul", {y, vit.model().RandomPositive("temperature", {kAttentionHeads, 1, 1})});
  y = vit.Node("MatMul", {vit.Node("Softmax", {y}, {{"axis", int64_t{-1}}}), parts[2]});
  y = vit.Node("Add", {x, vit.Joined(vit.Transpose(y, {0, 1, 3, 2}), kPatches)});
  vit.End(vit.Node("ReduceMean", {y}, {{"axes", Ints{1}}, {"keepdims", int64_t{0}}}));
  CHECK(LayersOf(ReadVit(vit.model()), "attention").size() == 1);
  CheckImages(vit.model());
}

TEST_CASE("an attention whose query is a constant reads it from tokens") {
  Vit vit;
  const std::vector<std::string> parts = vit.HeadsOf(vit.Patches(), kPatches);
  const std::string query = vit.model().Random("latent", {1, kAttentionHeads, 1, kDims});
  std::string y = vit.Node("MatMul", {query, vit.Transpose(parts[1], {0, 1, 3, 2})});
  y = vit.Node("MatMul", {vit.Node("Softmax", {y}, {{"axis", int64_t{-1}}}), parts[2]});
  vit.End(
      vit.Node("ReduceMean", {vit.Joined(y, 1)}, {{"axes", Ints{1}}, {"keepdims", int64_t{0}}}));
  CHECK(LayersOf(ReadVit(vit.model()), "prepend_token").size() == 1);
  CheckImages(vit.model());
}

TEST_CASE("layers between tokens move them, and back") {
  Vit vit;
  const std::string x = vit.Patches();
  const std::string mixed = vit.Linear("mix", vit.Transpose(x, {0, 2, 1}), kPatches, kPatches);
  const std::string y = vit.Node("Add", {x, vit.Transpose(mixed, {0, 2, 1})});
  vit.End(vit.Node("ReduceMean", {vit.Node("Relu", {y})},
                   {{"axes", Ints{1}}, {"keepdims", int64_t{0}}}));
  CheckImages(vit.model());
}

TEST_CASE("axes in an order that one permutation has too few axes for are moved in two") {
  for (const Ints& order : {Ints{0, 5, 2, 4, 1, 3}, Ints{0, 5, 4, 2, 1, 3}}) {
    Vit vit;
    const std::string blocks = vit.Transpose(vit.Reshape("x", {1, 3, 2, 4, 2, 4}), order);
    const std::string mixed =
        vit.Linear("mix", vit.Reshape(vit.Node("Relu", {blocks}), {1, 16, 12}), 12, kModelWidth);
    vit.End(vit.Node("ReduceMean", {mixed}, {{"axes", Ints{1}}, {"keepdims", int64_t{0}}}));
    CHECK(LayersOf(ReadVit(vit.model()), "permute").size() == 2);
    CheckImages(vit.model());
  }
}

TEST_CASE("a product of two layers' outputs that is no attention is refused by its node") {
  Vit vit;
  const std::vector<std::string> parts = vit.HeadsOf(vit.Patches(), kPatches);
  const std::string y = vit.Node("MatMul", {parts[0], vit.Transpose(parts[1], {0, 1, 3, 2})});
  vit.End(vit.Reshape(vit.Node("Relu", {y}), {1, kAttentionHeads * kPatches * kPatches}));
  const ScratchDirectory directory;
  const std::string message(
      ReadOnnx(vit.model().Write(directory), {.batch = 2}).status().message());
  CAPTURE(message);
  CHECK(message.find("which neap has in an attention only") != std::string::npos);
  CHECK(message.find("Relu") != std::string::npos);
}

// The network of the layer alone is read as it was written, and computes the same bits.
void CheckWritten(const Layer& layer, const std::vector<std::string>& inputs, int64_t channels) {
  CAPTURE(layer.Parameters());
  Graph net({.name = "n", .batch = 2});
  const std::string x = net.Input({channels, kTokens});
  for (size_t i = 0; i < inputs.size(); ++i)
    net.Add(inputs[i], LinearOfTokens(channels, /*bias=*/true), {x});
  const std::string y = net.Add("layer", layer, inputs);
  const TensorSpec input = {.shape = {2, channels, kTokens}};
  const TensorSpec spec =
      layer.Specify({.inputs = std::vector<TensorSpec>(inputs.size(), input)}).value().output;
  net.TargetLoss(y, MeanSquaredError{}, {spec.shape[1], spec.shape[2]});
  const NamedValues weights = WeightsOf(net);
  const ScratchDirectory directory;
  const std::string path = directory.File("n.onnx");
  const absl::Status written = WriteOnnx(path, net, weights);
  REQUIRE_MESSAGE(written.ok(), written.ToString());
  const absl::StatusOr<OnnxModel> model = ReadOnnx(path, {.batch = 2, .loss = MeanSquaredError{}});
  REQUIRE_MESSAGE(model.ok(), model.status().ToString());
  CHECK(model->graph.layers() == net.layers());
  CHECK(model->weights == weights);
}

TEST_CASE("attention and class tokens are read as they were written") {
  CheckWritten(PrependToken{}, {"a"}, 4);
  CheckWritten(Attention{.heads = 2}, {"qkv"}, 12);
  CheckWritten(Attention{.heads = 2, .causal = true, .scale = 0.3F}, {"qkv"}, 12);
  CheckWritten(Attention{.heads = 3}, {"q", "k", "v"}, 6);
  CheckWritten(Attention{.heads = 2, .learned_bias = true}, {"q", "k", "v"}, 6);
  CheckWritten(Attention{.heads = 4, .kv_heads = 2}, {"qkv"}, 16);
  CheckWritten(Attention{.heads = 1}, {"qkv"}, 9);
}

}  // namespace
}  // namespace neap::testing

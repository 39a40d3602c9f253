// What is added to the scores of an attention in ONNX files, or put in their place.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "neap/layers/attention/attention.h"
#include "neap/layers/target_loss.h"
#include "neap/nets/onnx/onnx_file.h"
#include "tests/nets/onnx/onnx_builder.h"
#include "tests/nets/onnx/onnx_checks.h"
#include "tests/scratch_directory.h"

namespace neap::testing {
namespace {

using nets::OnnxModel;
using nets::ReadOnnx;

constexpr int64_t kMaskHeads = 2, kMaskDims = 3, kMaskTokens = 4, kMaskWidth = 6;

// An attention of sequences {N, 6, 4} whose queries, keys and values have the axes {N, 2, 4, 3}.
class MaskedAttention {
 public:
  explicit MaskedAttention(int64_t batch = 1)
      : batch_(batch), model_({batch, kMaskWidth, kMaskTokens}) {}
  OnnxBuilder& model() { return model_; }
  std::string Node(const std::string& op, const std::vector<std::string>& inputs,
                   const Attributes& attributes = {}) {
    return model_.Node(op, inputs, attributes);
  }
  std::string Reshape(const std::string& x, const Ints& dims) {
    return Node("Reshape", {x, model_.Integers(absl::StrCat("dims", count_++), dims)});
  }
  std::string Transpose(const std::string& x, const Ints& order) {
    return Node("Transpose", {x}, {{"perm", order}});
  }
  // Queries, keys or values.
  std::string Heads(const std::string& name) {
    const std::string matrix = model_.Random(name, {kMaskWidth, kMaskWidth});
    const std::string tokens = Transpose(Node("Relu", {"x"}), {0, 2, 1});
    const std::string x = Node("MatMul", {tokens, matrix});
    return Transpose(Reshape(x, {batch_, kMaskTokens, kMaskHeads, kMaskDims}), {0, 2, 1, 3});
  }
  std::string Scores() {
    const std::string query = Heads("query"), key = Transpose(Heads("key"), {0, 1, 3, 2});
    return Node("MatMul", {query, key});
  }
  std::string Number(const std::string& name, float value) { return model_.Scalar(name, value); }
  // Whether the key is not behind the query, as a constant of the type BOOL.
  std::string CausalMask() {
    std::vector<float> mask;
    for (int64_t query = 0; query < kMaskTokens; ++query) {
      for (int64_t key = 0; key < kMaskTokens; ++key) mask.push_back(key <= query ? 1.0F : 0.0F);
    }
    return Bools("mask", {kMaskTokens, kMaskTokens}, mask);
  }
  std::string Bools(const std::string& name, const Ints& dims, const std::vector<float>& values) {
    return Node("Cast", {model_.Floats(name, dims, values)}, {{"to", int64_t{9}}});
  }
  // The product of the weights and the values, as the output.
  void EndWithWeights(const std::string& weights) {
    End(Node("MatMul", {weights, Heads("value")}));
  }
  void EndWithScores(const std::string& scores) {
    EndWithWeights(Node("Softmax", {scores}, {{"axis", int64_t{3}}}));
  }
  void End(const std::string& y) {
    const std::string tokens =
        Reshape(Transpose(y, {0, 2, 1, 3}), {batch_, kMaskTokens, kMaskWidth});
    model_.Output(Transpose(tokens, {0, 2, 1}));
  }

 private:
  int64_t batch_;
  OnnxBuilder model_;
  int count_ = 0;
};

absl::StatusOr<OnnxModel> ReadMasked(MaskedAttention& given) {
  const ScratchDirectory directory;
  return ReadOnnx(given.model().Write(directory), {.batch = 2, .loss = MeanSquaredError{}});
}

// Checks that it is refused because of this node, with this reason.
void CheckRefused(MaskedAttention& given, const std::string& text) {
  const std::string message(ReadMasked(given).status().message());
  CAPTURE(message);
  CHECK(message.find(text) != std::string::npos);
}

// The one attention of the network.
Attention AttentionOf(MaskedAttention& given) {
  const absl::StatusOr<OnnxModel> read = ReadMasked(given);
  REQUIRE_MESSAGE(read.ok(), read.status().ToString());
  std::vector<Attention> found;
  for (const GraphLayer& layer : read->graph.layers()) {
    if (const auto* const attention = layer.layer.As<Attention>()) found.push_back(*attention);
  }
  REQUIRE(found.size() == 1);
  return found[0];
}

TEST_CASE("a softmax before opset 13 is that of all axes from the stated one on") {
  MaskedAttention last;
  last.model().model().mutable_opset_import(0)->set_version(12);
  last.EndWithScores(last.Scores());
  CheckArrays(last.model(), 2);
  MaskedAttention second;
  second.model().model().mutable_opset_import(0)->set_version(12);
  second.EndWithWeights(second.Node("Softmax", {second.Scores()}));
  CheckRefused(second, "(Softmax): attribute 'axis' is 1, which is not one axis of an image");
}

TEST_CASE("scores are replaced by numbers that hide their keys, and by no others") {
  for (const float hidden : {-10000.0F, -3.4e38F, -HUGE_VALF}) {
    CAPTURE(hidden);
    MaskedAttention given;
    const std::string number = given.Number("hidden", hidden);
    given.EndWithScores(given.Node("Where", {given.CausalMask(), given.Scores(), number}));
    CHECK(AttentionOf(given).causal);
    MaskedAttention swapped;
    const std::string mask = swapped.Node("Not", {swapped.CausalMask()});
    const std::string same = swapped.Number("hidden", hidden);
    swapped.EndWithScores(swapped.Node("Where", {mask, same, swapped.Scores()}));
    CHECK(AttentionOf(swapped).causal);
  }
  for (const float shown : {0.0F, -5.0F, -1000.0F, NAN}) {
    CAPTURE(shown);
    MaskedAttention given;
    const std::string number = given.Number("shown", shown);
    given.EndWithScores(given.Node("Where", {given.CausalMask(), given.Scores(), number}));
    CheckRefused(given, "(Where): it replaces scores by numbers above -10,000, which do not hide");
  }
}

TEST_CASE("numbers that a mask does not select may be any") {
  MaskedAttention given;
  std::vector<float> numbers;
  for (int64_t i = 0; i < kMaskTokens * kMaskTokens; ++i)
    numbers.push_back(i % kMaskTokens > i / kMaskTokens ? -1e9F : 7.0F);
  const std::string hidden = given.model().Floats("numbers", {kMaskTokens, kMaskTokens}, numbers);
  given.EndWithScores(given.Node("Where", {given.CausalMask(), given.Scores(), hidden}));
  CHECK(AttentionOf(given).causal);
}

TEST_CASE("a small mask and a small number cannot make a large constant") {
  MaskedAttention given;
  const auto zeros = [&](const std::string& name, const Ints& dims) {
    return given.Node("ConstantOfShape", {given.model().Integers(name, dims)});
  };
  const std::string mask = zeros("rows", {1 << 22, 1}), number = zeros("columns", {1, 1 << 22});
  given.EndWithScores(given.Node("Where", {mask, given.Scores(), number}));
  CheckRefused(given, "(Where): constants of more than ");
}

TEST_CASE("an operator with scores as its third input is refused") {
  for (const char* const op : {"Add", "Mul", "Div", "MatMul"}) {
    MaskedAttention given;
    const std::string scores = given.Scores();
    const std::string a = given.Number("a", 1), b = given.Number("b", 2);
    given.EndWithScores(given.Node(op, {a, b, scores}));
    CheckRefused(given, absl::StrCat("(", op, "): it reads the product of two layers' outputs"));
    MaskedAttention weights;
    const std::string softmax = weights.Node("Softmax", {weights.Scores()}, {{"axis", int64_t{3}}});
    const std::string c = weights.Number("c", 1), d = weights.Number("d", 2);
    weights.End(weights.Node(op, {c, d, softmax}));
    CheckRefused(weights, absl::StrCat("(", op, "): it reads the product of two layers' outputs"));
  }
}

TEST_CASE("scores of several images are not divided, so that they stay those of each") {
  MaskedAttention given(/*batch=*/2);
  const Ints all = {1, 2 * kMaskHeads, kMaskTokens, kMaskTokens};
  const std::string joined = given.Reshape(given.Scores(), all);
  const std::string sum = given.Node("Add", {joined, given.model().Random("bias", all)});
  given.EndWithScores(given.Reshape(sum, {2, kMaskHeads, kMaskTokens, kMaskTokens}));
  CheckRefused(given, "(Reshape): it reads the product of two layers' outputs");
}

// An Attention of opset 23 with a mask.
void AddOperator(MaskedAttention& given, const std::function<std::string()>& mask,
                 const std::vector<std::string>& more = {}) {
  given.model().model().mutable_opset_import(0)->set_version(24);
  std::vector<std::string> inputs = {given.Heads("query"), given.Heads("key"), given.Heads("value"),
                                     mask()};
  inputs.insert(inputs.end(), more.begin(), more.end());
  given.End(given.Node("Attention", inputs));
}

TEST_CASE("a mask of an Attention is true where a query attends to a key") {
  MaskedAttention causal;
  AddOperator(causal, [&] { return causal.CausalMask(); });
  CHECK(AttentionOf(causal).causal);

  MaskedAttention given;
  std::vector<float> mask(kMaskTokens * kMaskTokens, 1.0F);
  mask[0] = mask[6] = 0;
  AddOperator(given, [&] { return given.Bools("m", {kMaskTokens, kMaskTokens}, mask); });
  CHECK(AttentionOf(given).learned_bias);
  const absl::StatusOr<OnnxModel> read = ReadMasked(given);
  std::vector<float> bias;
  for (const auto& [name, values] : read->weights) {
    if (name.ends_with(".bias")) bias = values;
  }
  REQUIRE(bias.size() == kMaskHeads * mask.size());
  for (size_t i = 0; i < bias.size(); ++i)
    CHECK(bias[i] == (mask[i % mask.size()] == 0 ? -1e9F : 0.0F));

  MaskedAttention all;  // nothing is hidden
  AddOperator(all, [&] {
    return all.Bools("m", {1, kMaskTokens}, std::vector<float>(kMaskTokens, 1.0F));
  });
  CHECK(!AttentionOf(all).learned_bias);
  CHECK(!AttentionOf(all).causal);
}

TEST_CASE("an Attention with other lengths of each image is refused") {
  MaskedAttention given;
  const std::string lengths = given.model().Integers("lengths", {3});
  AddOperator(given, [] { return std::string(); }, {"", "", lengths});
  CheckRefused(given, "(Attention): it reads how many keys each image has");
}

}  // namespace
}  // namespace neap::testing

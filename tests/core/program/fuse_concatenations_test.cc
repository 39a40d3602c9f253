// Batch norms before and behind concatenations, which become one layer with them, or stay apart.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/program/fuse.h"
#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fusion/norm_pass.h"
#include "neap/layers/fusion/rules.h"
#include "neap/layers/join.h"
#include "neap/layers/pooling.h"
#include "tests/core/program/fused_layers.h"

namespace neap {
namespace {

using testing::FusedNet;
using testing::kConvolution;

TEST_CASE("batch norms that are concatenated are one layer with the concatenation") {
  for (Mode mode : {Mode::kTraining, Mode::kInference}) {
    FusedNet net;
    const std::string x = net.Add("conv1", kConvolution, {net.input});
    const std::string a = net.Add("bn2", BatchNorm{}, {net.Add("conv2", kConvolution, {x})});
    const std::string b = net.Add("bn3", BatchNorm{}, {net.Add("conv3", kConvolution, {x})});
    const std::string relu = net.Add("relu", Relu{}, {b});
    CHECK(net.Fused(net.Add("cat", Concat{}, {a, x, relu}), mode) ==
          "conv1(input) conv2(conv1) conv3(conv1) bn2+concat 0 2+relu(conv2,conv3,conv1)");
    FusedNet twice;
    const std::string y =
        twice.Add("bn1", BatchNorm{}, {twice.Add("conv1", kConvolution, {twice.input})});
    const std::string z = twice.Add("bn2", BatchNorm{}, {twice.Add("conv2", kConvolution, {y})});
    CHECK(twice.Fused(twice.Add("cat", Concat{}, {y, z}), mode) ==
          "conv1(input) bn1(conv1) conv2(bn1) bn2+concat 1(conv2,bn1)");
  }
}

TEST_CASE("a batch norm reads the parts of a concatenation where they are") {
  for (Mode mode : {Mode::kTraining, Mode::kInference}) {
    FusedNet net;
    const std::string a = net.Add("a", kConvolution, {net.input});
    const std::string b = net.Add("b", kConvolution, {a});
    std::string x = net.Add("bn1", BatchNorm{}, {net.Add("cat1", Concat{}, {a, b})});
    const std::string c = net.Add("c", kConvolution, {net.Add("relu1", Relu{}, {x})});
    x = net.Add("bn2", BatchNorm{}, {net.Add("cat2", Concat{}, {a, b, c})});
    CHECK(net.Fused(x, mode) == "a(input) b(a) cat1+concat+relu(a,b) c(cat1) cat2+concat(a,b,c)");
  }
}

TEST_CASE("a concatenation that has two readers, or one of another kind, stays a tensor") {
  FusedNet shared;
  const std::string a = shared.Add("a", kConvolution, {shared.input});
  const std::string b = shared.Add("b", Tanh{}, {a});
  std::string x = shared.Add("cat", Concat{}, {a, b});
  const std::string norm = shared.Add("bn", BatchNorm{}, {x});
  CHECK(shared.Fused(shared.Add("add", Add{}, {x, shared.Add("relu", Relu{}, {norm})})) ==
        "a(input) b(a) cat(a,b) bn+relu(cat) add(cat,bn)");
  FusedNet other;
  x = other.Add("cat", Concat{}, {other.input, other.Add("a", Tanh{}, {other.input})});
  CHECK(other.Fused(other.Add("conv", kConvolution, {x})) == "a(input) cat(input,a) conv(cat)");
}

TEST_CASE("a batch norm of a concatenation is not fused with a sum or a pooling behind it") {
  FusedNet sum;
  const std::string a = sum.Add("a", kConvolution, {sum.input});
  std::string x = sum.Add("bn", BatchNorm{}, {sum.Add("cat", Concat{}, {sum.input, a})});
  const std::string other = sum.Add("other", Convolution{.out_channels = 6, .kernel = 1}, {a});
  x = sum.Add("add", Add{}, {sum.Add("bn2", BatchNorm{}, {other}), x});
  CHECK(sum.Fused(sum.Add("relu", Relu{}, {x})) ==
        "a(input) cat+concat(input,a) other(a) bn2+add+relu(other,cat)");
  FusedNet pooled;
  const std::string b = pooled.Add("b", kConvolution, {pooled.input});
  x = pooled.Add("bn", BatchNorm{}, {pooled.Add("cat", Concat{}, {pooled.input, b})});
  x = pooled.Add("pool", MaxPool{}, {pooled.Add("relu", Relu{}, {x})});
  x = pooled.Add("bn2", BatchNorm{},
                 {pooled.Add("cat2", Concat{}, {x, pooled.Add("c", Tanh{}, {x})})});
  CHECK(pooled.Fused(pooled.Add("means", GlobalAveragePool{}, {x})) ==
        "b(input) cat+concat+relu(input,b) pool(cat) c(pool) cat2+concat(pool,c) means(cat2)");
}

TEST_CASE("a concatenation of more parts than its kernels take stays apart") {
  for (const size_t parts : {NormPass::kMaxParts, NormPass::kMaxParts + 1}) {
    FusedNet net;
    std::vector<std::string> inputs;
    for (size_t i = 0; i < parts; ++i)
      inputs.push_back(net.Add(absl::StrCat("tanh", i), Tanh{}, {net.input}));
    net.Fused(net.Add("bn", BatchNorm{}, {net.Add("cat", Concat{}, inputs)}));
    const ResolvedGraph fused =
        Fuse(Resolve(net.graph, Mode::kTraining).value(), Mode::kTraining, CpuRules());
    // input, labels, tanh ..., then what remains of cat and bn, fc, loss
    CHECK(fused.layers.size() == parts + 4 + (parts > NormPass::kMaxParts ? 2 : 1));
  }
}

TEST_CASE("a norm pass refuses combinations without kernels, and to join what does not fit") {
  const TensorSpec x = {{2, 3, 4, 4}};
  const std::vector<TensorSpec> two = {x, x};
  const auto message = [](const NormPass& layer, const std::vector<TensorSpec>& inputs) {
    return std::string(layer.Specify({.inputs = inputs}).status().message());
  };
  const auto refused = [](const NormPass& layer) {
    return absl::StrCat("there are no kernels for a norm pass with ", layer.Parameters());
  };
  const NormPass::Raw raw;
  const NormPass without_kernels[] = {
      {.addend = raw, .concatenates = true},
      {.activation = Relu{}, .sink = MaxPool{}, .concatenates = true},
      {.sink = GlobalAveragePool{}, .concatenates = true},
      {.sink = MaxPool{}},
      {.addend = raw, .activation = Relu{}, .sink = MaxPool{}},
      {.addend = BatchNorm{}, .activation = Relu{}, .sink = MaxPool{}},
      {.addend = raw, .activation = Clip{}},
      {.addend = BatchNorm{}, .activation = HardSwish{}},
      {.activation = Silu{}, .sink = MaxPool{}},
      {.activation = Clip{}, .sink = GlobalAveragePool{}},
      {.activation = HardSwish{}, .concatenates = true}};
  for (const NormPass& layer : without_kernels) {
    CHECK(!layer.HasKernels());
    CHECK(message(layer, layer.adds() || layer.concatenates ? two : std::vector{x}) ==
          refused(layer));
  }
  CHECK(refused({.addend = raw, .activation = Clip{}}) ==
        "there are no kernels for a norm pass with epsilon=1e-05 momentum=0.1 "
        "activation=clip(low=0 high=6) adds=true");
  CHECK(message({.activation = Relu{}, .sink = MaxPool{.kernel = 16, .stride = 1, .padding = 8}},
                {x}) == "a norm pass pools in windows of at most 255 elements");
  CHECK(message({.concatenates = true}, std::vector<TensorSpec>(97, x)) ==
        "a norm pass concatenates at most 96 inputs, not 97");
  CHECK(message({.concatenates = true}, {x, {{2, 3, 4, 5}}}) ==
        "cannot concatenate input 1 of shape 2x3x4x5 with input 0 of shape 2x3x4x4: all but "
        "the channels must agree");
  CHECK(NormPass{.concatenates = true}.Specify({.inputs = two})->output.shape == Shape{2, 6, 4, 4});
}

}  // namespace
}  // namespace neap

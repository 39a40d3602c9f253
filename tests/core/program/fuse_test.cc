// Which layers become one, and that training has the same bits with them.
#include "neap/core/program/fuse.h"

#include <doctest/doctest.h>

#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "neap/core/program/passes.h"
#include "neap/core/step/operands.h"
#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/convolution.h"
#include "neap/layers/dropout.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/fusion/activated_batch_norm.h"
#include "neap/layers/fusion/fused_batch_norm.h"
#include "neap/layers/fusion/fused_convolution.h"
#include "neap/layers/fusion/fused_relu.h"
#include "neap/layers/fusion/joined_batch_norms.h"
#include "neap/layers/fusion/rules.h"
#include "neap/layers/join.h"
#include "neap/layers/pooling.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "tests/random_graph.h"

namespace neap {
namespace {

constexpr Convolution kConvolution = {.out_channels = 3, .kernel = 1, .bias = false};

// What a layer has taken in.
std::string Parts(const Layer& layer) {
  if (layer.As<FusedConvolution>() != nullptr) return "convolution+relu";
  if (const auto* const relu = layer.As<FusedRelu>()) return relu->bias ? "+bias+pool" : "+pool";
  if (const auto* const joined = layer.As<JoinedBatchNorms>()) {
    std::string parts = "+concat";
    for (const JoinedBatchNorms::Part& part : joined->parts)
      absl::StrAppend(&parts, " ", part.position, part.relu ? "+relu" : "");
    return parts;
  }
  if (const auto* const activated = layer.As<ActivatedBatchNorm>()) {
    const auto type = [](const auto& activation) { return std::string(activation.kType); };
    return absl::StrCat("+", std::visit(type, activated->activation));
  }
  const auto* const norm = layer.As<FusedBatchNorm>();
  if (norm == nullptr) return "";
  return absl::StrCat(norm->concatenates ? "+concat" : "", norm->addend_norm ? "+bn" : "",
                      norm->adds ? "+add" : "", norm->relu ? "+relu" : "",
                      norm->pool ? "+pool" : "", norm->averages ? "+average" : "");
}

// The layers between the input and the classifier, one per line: "conv(input) bn+relu(conv)".
std::string Fused(const Graph& graph, Mode mode = Mode::kTraining) {
  const ResolvedGraph fused = Fuse(Resolve(graph, mode).value(), mode, CpuRules());
  std::vector<std::string> lines;
  for (const ResolvedLayer& layer : fused.layers) {
    CHECK(fused.layers[layer.id.index()].name == layer.name);
    if (layer.role != LayerRole::kInner || layer.name == "fc") continue;
    std::vector<std::string> inputs;
    for (LayerId input : layer.inputs) inputs.push_back(fused.layers[input.index()].name);
    lines.push_back(
        absl::StrCat(layer.name, Parts(layer.layer), "(", absl::StrJoin(inputs, ","), ")"));
  }
  return absl::StrJoin(lines, " ");
}

struct Net {
  Graph graph{{.name = "net", .batch = 2}};
  std::string input = graph.Input({3, 4, 4});

  std::string Add(const std::string& name, const Layer& layer, std::vector<std::string> inputs) {
    return graph.Add(name, layer, std::move(inputs));
  }
  std::string Fused(const std::string& last, Mode mode = Mode::kTraining) {
    graph.Loss(graph.Add("fc", FullyConnected{.out_features = 4}, {last}), SoftmaxCrossEntropy{});
    return neap::Fused(graph, mode);
  }
};

}  // namespace

TEST_CASE("a batch norm, the sum and the ReLU that follow it are one layer") {
  for (Mode mode : {Mode::kTraining, Mode::kInference}) {
    Net net;
    std::string x = net.Add("conv1", kConvolution, {net.input});
    const std::string shortcut = net.Add("relu1", Relu{}, {net.Add("bn1", BatchNorm{}, {x})});
    x = net.Add("bn2", BatchNorm{}, {net.Add("conv2", kConvolution, {shortcut})});
    x = net.Add("relu2", Relu{}, {net.Add("add", Add{}, {x, shortcut})});
    CHECK(net.Fused(x, mode) == "conv1(input) bn1+relu(conv1) conv2(bn1) bn2+add+relu(conv2,bn1)");
  }
}

TEST_CASE("two batch norms that are added are one layer with the sum and the ReLU") {
  for (Mode mode : {Mode::kTraining, Mode::kInference}) {
    Net net;
    const std::string x = net.Add("conv1", kConvolution, {net.input});
    const std::string a = net.Add("bn2", BatchNorm{}, {net.Add("conv2", kConvolution, {x})});
    const std::string b = net.Add("bn3", BatchNorm{}, {net.Add("conv3", kConvolution, {x})});
    const std::string sum = net.Add("add", Add{}, {a, b});
    CHECK(net.Fused(net.Add("relu", Relu{}, {sum}), mode) ==
          "conv1(input) conv2(conv1) conv3(conv1) bn2+bn+add+relu(conv2,conv3)");
  }
}

TEST_CASE("batch norms that are concatenated are one layer with the concatenation") {
  for (Mode mode : {Mode::kTraining, Mode::kInference}) {
    Net net;
    const std::string x = net.Add("conv1", kConvolution, {net.input});
    const std::string a = net.Add("bn2", BatchNorm{}, {net.Add("conv2", kConvolution, {x})});
    const std::string b = net.Add("bn3", BatchNorm{}, {net.Add("conv3", kConvolution, {x})});
    const std::string relu = net.Add("relu", Relu{}, {b});
    CHECK(net.Fused(net.Add("cat", Concat{}, {a, x, relu}), mode) ==
          "conv1(input) conv2(conv1) conv3(conv1) bn2+concat 0 2+relu(conv2,conv3,conv1)");
    Net twice;
    const std::string y =
        twice.Add("bn1", BatchNorm{}, {twice.Add("conv1", kConvolution, {twice.input})});
    const std::string z = twice.Add("bn2", BatchNorm{}, {twice.Add("conv2", kConvolution, {y})});
    CHECK(twice.Fused(twice.Add("cat", Concat{}, {y, z}), mode) ==
          "conv1(input) bn1(conv1) conv2(bn1) bn2+concat 1(conv2,bn1)");
  }
}

TEST_CASE("a batch norm before another one that takes part in a sum stays apart") {
  Net net;
  const std::string x = net.Add("conv1", kConvolution, {net.input});
  const std::string a = net.Add("bn1", BatchNorm{}, {x});
  const std::string b = net.Add("bn2", BatchNorm{}, {a});
  const std::string c = net.Add("tanh", Tanh{}, {net.Add("conv2", kConvolution, {net.input})});
  CHECK(net.Fused(net.Add("add", Add{}, {c, b})) ==
        "conv1(input) bn1(conv1) conv2(input) tanh(conv2) bn2+add(bn1,tanh)");
}

TEST_CASE("a ReLU is pooled in its own pass, behind a batch norm or a convolution") {
  const MaxPool pool = {.kernel = 2, .stride = 1};
  Net norm;
  std::string x = norm.Add("bn", BatchNorm{}, {norm.Add("conv", kConvolution, {norm.input})});
  x = norm.Add("pool", pool, {norm.Add("relu", Relu{}, {x})});
  CHECK(norm.Fused(x) == "conv(input) bn+relu+pool(conv)");
  Net plain;
  x = plain.Add("relu", Relu{}, {plain.Add("conv", kConvolution, {plain.input})});
  CHECK(plain.Fused(plain.Add("pool", pool, {x})) == "conv(input) relu+pool(conv)");
  Net shared;
  x = shared.Add("relu", Relu{}, {shared.Add("conv", kConvolution, {shared.input})});
  const std::string other = shared.Add("other", pool, {x});
  x = shared.Add("pool", pool, {x});
  CHECK(shared.Fused(shared.Add("add", Add{}, {x, other})) ==
        "conv(input) relu(conv) other(relu) pool(relu) add(pool,other)");
}

TEST_CASE("pooling without a ReLU, after a sum, or of large windows stays apart") {
  const MaxPool pool = {.kernel = 2, .stride = 1};
  Net alone;
  std::string x = alone.Add("bn", BatchNorm{}, {alone.input});
  CHECK(alone.Fused(alone.Add("pool", pool, {x})) == "bn(input) pool(bn)");
  Net sum;
  const std::string a = sum.Add("conv", kConvolution, {sum.input});
  x = sum.Add("add", Add{}, {sum.Add("bn", BatchNorm{}, {a}), sum.Add("c", kConvolution, {a})});
  x = sum.Add("pool", pool, {sum.Add("relu", Relu{}, {x})});
  CHECK(sum.Fused(x) == "conv(input) bn(conv) c(conv) add(bn,c) relu+pool(add)");
  CHECK(CanPoolRelu({.kernel = {15, 17}}));
  CHECK(!CanPoolRelu({.kernel = 16}));
}

TEST_CASE("what is averaged over the images is a part of the batch norm before it") {
  for (Mode mode : {Mode::kTraining, Mode::kInference}) {
    Net net;
    const std::string x = net.Add("conv1", kConvolution, {net.input});
    const std::string y = net.Add("bn", BatchNorm{}, {net.Add("conv2", kConvolution, {x})});
    const std::string sum = net.Add("relu", Relu{}, {net.Add("add", Add{}, {y, x})});
    CHECK(net.Fused(net.Add("pool", GlobalAveragePool{}, {sum}), mode) ==
          "conv1(input) conv2(conv1) bn+add+relu+average(conv2,conv1)");
    Net joint;
    const std::string a = joint.Add("bn1", BatchNorm{}, {joint.Add("a", Tanh{}, {joint.input})});
    const std::string b = joint.Add("bn2", BatchNorm{}, {joint.Add("b", Relu{}, {joint.input})});
    const std::string both = joint.Add("add", Add{}, {a, b});
    CHECK(joint.Fused(joint.Add("pool", GlobalAveragePool{}, {both}), mode) ==
          "a(input) b(input) bn1+bn+add+average(a,b)");
    Net plain;
    const std::string relu =
        plain.Add("relu", Relu{}, {plain.Add("bn", BatchNorm{}, {plain.input})});
    CHECK(plain.Fused(plain.Add("pool", GlobalAveragePool{}, {relu}), mode) ==
          "bn+relu+average(input)");
  }
}

TEST_CASE("a batch norm that adds and averages has a mask of what it averages, and can be kept") {
  const TensorSpec x = {{2, 3, 4, 4}};
  const FusedBatchNorm layer = {.adds = true, .relu = true, .averages = true};
  const LayerSpec spec = layer.Specify({.inputs = {x, x}}).value();
  CHECK(spec.output.shape == Shape{2, 3, 1, 1});
  CHECK(spec.saved[2].tensor.elements() == x.elements() / 4);
  CHECK(spec.traits == LayerTraits{.checkpoint = true, .coupled_by_statistics = true});
  CHECK(spec.steps[0].in_place.empty());
  const std::vector<std::pair<Operand, Operand>> over_x = {{operands::Dx(), operands::X()}};
  CHECK(spec.steps[1].in_place == over_x);
}

TEST_CASE("averages of windows, of a shared tensor, or behind no batch norm stay apart") {
  Net windows;
  std::string x = windows.Add("bn", BatchNorm{}, {windows.input});
  CHECK(windows.Fused(windows.Add("pool", AveragePool{}, {x})) == "bn(input) pool(bn)");
  Net shared;
  x = shared.Add("bn", BatchNorm{}, {shared.input});
  const std::string mean = shared.Add("pool", GlobalAveragePool{}, {x});
  const std::string all = shared.Add("all", MaxPool{.kernel = 4}, {x});
  CHECK(shared.Fused(shared.Add("add", Add{}, {mean, all})) ==
        "bn(input) pool(bn) all(bn) add(pool,all)");
  Net other;
  x = other.Add("relu", Relu{}, {other.Add("conv", kConvolution, {other.input})});
  CHECK(other.Fused(other.Add("pool", GlobalAveragePool{}, {x})) ==
        "conv(input) relu(conv) pool(relu)");
}

TEST_CASE("a batch norm reads the parts of a concatenation where they are") {
  for (Mode mode : {Mode::kTraining, Mode::kInference}) {
    Net net;
    const std::string a = net.Add("a", kConvolution, {net.input});
    const std::string b = net.Add("b", kConvolution, {a});
    std::string x = net.Add("bn1", BatchNorm{}, {net.Add("cat1", Concat{}, {a, b})});
    const std::string c = net.Add("c", kConvolution, {net.Add("relu1", Relu{}, {x})});
    x = net.Add("bn2", BatchNorm{}, {net.Add("cat2", Concat{}, {a, b, c})});
    CHECK(net.Fused(x, mode) == "a(input) b(a) cat1+concat+relu(a,b) c(cat1) cat2+concat(a,b,c)");
  }
}

TEST_CASE("a concatenation that has two readers, or one of another kind, stays a tensor") {
  Net shared;
  const std::string a = shared.Add("a", kConvolution, {shared.input});
  const std::string b = shared.Add("b", Tanh{}, {a});
  std::string x = shared.Add("cat", Concat{}, {a, b});
  const std::string norm = shared.Add("bn", BatchNorm{}, {x});
  CHECK(shared.Fused(shared.Add("add", Add{}, {x, shared.Add("relu", Relu{}, {norm})})) ==
        "a(input) b(a) cat(a,b) bn+relu(cat) add(cat,bn)");
  Net other;
  x = other.Add("cat", Concat{}, {other.input, other.Add("a", Tanh{}, {other.input})});
  CHECK(other.Fused(other.Add("conv", kConvolution, {x})) == "a(input) cat(input,a) conv(cat)");
}

TEST_CASE("a batch norm of a concatenation is not fused with a sum or a pooling behind it") {
  Net sum;
  const std::string a = sum.Add("a", kConvolution, {sum.input});
  std::string x = sum.Add("bn", BatchNorm{}, {sum.Add("cat", Concat{}, {sum.input, a})});
  const std::string other = sum.Add("other", Convolution{.out_channels = 6, .kernel = 1}, {a});
  x = sum.Add("add", Add{}, {sum.Add("bn2", BatchNorm{}, {other}), x});
  CHECK(sum.Fused(sum.Add("relu", Relu{}, {x})) ==
        "a(input) cat+concat(input,a) other(a) bn2+add+relu(other,cat)");
  Net pooled;
  const std::string b = pooled.Add("b", kConvolution, {pooled.input});
  x = pooled.Add("bn", BatchNorm{}, {pooled.Add("cat", Concat{}, {pooled.input, b})});
  x = pooled.Add("pool", MaxPool{}, {pooled.Add("relu", Relu{}, {x})});
  x = pooled.Add("bn2", BatchNorm{},
                 {pooled.Add("cat2", Concat{}, {x, pooled.Add("c", Tanh{}, {x})})});
  CHECK(pooled.Fused(pooled.Add("means", GlobalAveragePool{}, {x})) ==
        "b(input) cat+concat+relu(input,b) pool(cat) c(pool) cat2+concat(pool,c) means(cat2)");
}

TEST_CASE("a concatenation of more parts than its kernels take stays apart") {
  for (const size_t parts : {FusedBatchNorm::kMaxParts, FusedBatchNorm::kMaxParts + 1}) {
    Net net;
    std::vector<std::string> inputs;
    for (size_t i = 0; i < parts; ++i)
      inputs.push_back(net.Add(absl::StrCat("tanh", i), Tanh{}, {net.input}));
    net.Fused(net.Add("bn", BatchNorm{}, {net.Add("cat", Concat{}, inputs)}));
    const ResolvedGraph fused =
        Fuse(Resolve(net.graph, Mode::kTraining).value(), Mode::kTraining, CpuRules());
    // input, labels, tanh ..., then what remains of cat and bn, fc, loss
    CHECK(fused.layers.size() == parts + 4 + (parts > FusedBatchNorm::kMaxParts ? 2 : 1));
  }
}

TEST_CASE("a fused batch norm refuses to concatenate and add, pool, or join what does not fit") {
  const TensorSpec x = {{2, 3, 4, 4}};
  const std::vector<TensorSpec> two = {x, x};
  const auto message = [](const FusedBatchNorm& layer, const std::vector<TensorSpec>& inputs) {
    return std::string(layer.Specify({.inputs = inputs}).status().message());
  };
  const std::string refused = "a fused batch norm that concatenates does not add and does not pool";
  CHECK(message({.adds = true, .concatenates = true}, two) == refused);
  CHECK(message({.relu = true, .pool = MaxPool{}, .concatenates = true}, two) == refused);
  CHECK(message({.averages = true, .concatenates = true}, two) == refused);
  CHECK(message({.relu = true, .pool = MaxPool{}, .averages = true}, {x}) ==
        "a fused batch norm pools the ReLU of one input, in windows of at most 255 elements and "
        "without averages, and normalises an addend only where it adds");
  CHECK(message({.concatenates = true}, std::vector<TensorSpec>(97, x)) ==
        "a fused batch norm concatenates at most 96 inputs, not 97");
  CHECK(message({.concatenates = true}, {x, {{2, 3, 4, 5}}}) ==
        "cannot concatenate input 1 of shape 2x3x4x5 with input 0 of shape 2x3x4x4: all but "
        "the channels must agree");
  CHECK(FusedBatchNorm{.concatenates = true}.Specify({.inputs = two})->output.shape ==
        Shape{2, 6, 4, 4});
}

TEST_CASE("what another layer reads too stays a tensor") {
  Net net;
  const std::string bn = net.Add("bn", BatchNorm{}, {net.input});
  const std::string relu = net.Add("relu", Relu{}, {bn});
  CHECK(net.Fused(net.Add("add", Add{}, {relu, bn})) == "bn(input) relu(bn) add(relu,bn)");
}

TEST_CASE("a sum of three, of a tensor with itself, or with the norm's own input stays apart") {
  Net three;
  const std::string bn = three.Add("bn", BatchNorm{}, {three.input});
  const std::string r1 = three.Add("r1", Sigmoid{}, {three.input});
  const std::string r2 = three.Add("r2", Tanh{}, {three.input});
  CHECK(three.Fused(three.Add("add", Add{}, {bn, r1, r2})) ==
        "bn(input) r1(input) r2(input) add(bn,r1,r2)");
  Net twice;
  const std::string same = twice.Add("bn", BatchNorm{}, {twice.input});
  CHECK(twice.Fused(twice.Add("add", Add{}, {same, same})) == "bn(input) add(bn,bn)");
  Net own;
  const std::string x = own.Add("conv", kConvolution, {own.input});
  const std::string y = own.Add("bn", BatchNorm{}, {x});
  CHECK(own.Fused(own.Add("add", Add{}, {y, x})) == "conv(input) bn(conv) add(bn,conv)");
}

TEST_CASE("layers stay apart if the gradients of their input would be summed in another order") {
  Net net;
  const std::string x = net.Add("conv", kConvolution, {net.input});
  const std::string a = net.Add("bn", BatchNorm{}, {x});
  const std::string b = net.Add("tanh", Tanh{}, {x});
  CHECK(net.Fused(net.Add("add", Add{}, {a, b})) == "conv(input) bn(conv) tanh(conv) add(bn,tanh)");
}

TEST_CASE("a batch norm and the activation of a mobile network behind it are one layer") {
  for (Mode mode : {Mode::kTraining, Mode::kInference}) {
    Net net;
    std::string x = net.Add("conv1", kConvolution, {net.input});
    x = net.Add("relu6", Clip{}, {net.Add("bn1", BatchNorm{}, {x})});
    x = net.Add("silu", Silu{}, {net.Add("bn2", BatchNorm{}, {x})});
    x = net.Add("hard_swish", HardSwish{}, {net.Add("bn3", BatchNorm{}, {x})});
    CHECK(net.Fused(net.Add("relu", Relu{}, {x}), mode) ==
          "conv1(input) bn1+clip(conv1) bn2+silu(bn1) bn3+hard_swish(bn2) relu(bn3)");
  }
}

TEST_CASE("such an activation behind a sum, or of a shared batch norm, stays apart") {
  Net net;
  const std::string bn = net.Add("bn1", BatchNorm{}, {net.input});
  const std::string a = net.Add("clip", Clip{}, {bn});
  const std::string b = net.Add("bn2", BatchNorm{}, {net.Add("conv", kConvolution, {bn})});
  const std::string sum = net.Add("add", Add{}, {b, a});
  CHECK(net.Fused(net.Add("silu", Silu{}, {sum})) ==
        "bn1(input) clip(bn1) conv(bn1) bn2+add(conv,clip) silu(bn2)");
}

TEST_CASE("tanh and dropout are not fused, and a graph can do without fusion") {
  Net net;
  const std::string bn = net.Add("bn", BatchNorm{}, {net.input});
  const std::string dropout = net.Add("dropout", Dropout{0.5F}, {net.Add("tanh", Tanh{}, {bn})});
  CHECK(net.Fused(net.Add("relu", Relu{}, {dropout})) ==
        "bn(input) tanh(bn) dropout(tanh) relu(dropout)");
}

TEST_CASE("a fused layer keeps the names of the parameters and running statistics") {
  const auto names = [](bool fusion) {
    Graph graph({.name = "net", .batch = 2, .fusion = fusion});
    const std::string bn = graph.Add("bn", BatchNorm{}, {graph.Input({3, 4, 4})});
    const std::string x = graph.Add("relu", Relu{}, {bn});
    const std::string a = graph.Add("bn_a", BatchNorm{}, {graph.Add("a", kConvolution, {x})});
    const std::string b = graph.Add("bn_b", BatchNorm{}, {graph.Add("b", kConvolution, {x})});
    const std::string sum = graph.Add("sum", Add{}, {a, b});
    const std::string cat = graph.Add("cat", Concat{}, {sum, x});
    const std::string relu = graph.Add("relu_c", Relu{}, {graph.Add("bn_c", BatchNorm{}, {cat})});
    const std::string c = graph.Add("bn_d", BatchNorm{}, {graph.Add("c", kConvolution, {relu})});
    const std::string last = graph.Add("last", Add{}, {c, graph.Add("d", kConvolution, {relu})});
    const std::string means = graph.Add("means", GlobalAveragePool{}, {last});
    graph.Loss(graph.Add("fc", FullyConnected{.out_features = 4}, {means}), SoftmaxCrossEntropy{});
    std::set<std::string> persistent;
    const Program program = Lower(graph, {}, {}).value();
    for (const Tensor& tensor : program.tensors) {
      if (IsPersistent(tensor.role)) persistent.insert(tensor.name);
    }
    return persistent;
  };
  CHECK(names(true) == names(false));
}

TEST_CASE("random networks, whose training is compared with and without fusion, have every kind") {
  std::map<std::string, int> kinds;
  int with_other_grad = 0;
  for (uint32_t seed = 0; seed < 500; ++seed) {
    const Graph graph = testing::RandomGraph(
        seed, {.residual = seed / 7 % 3 == 1, .dense = seed / 7 % 3 == 2, .mobile = seed % 4 == 3});
    const ResolvedGraph fused =
        Fuse(Resolve(graph, Mode::kTraining).value(), Mode::kTraining, GpuRules());
    for (const ResolvedLayer& layer : fused.layers) ++kinds[Parts(layer.layer)];
    const Program program = BuildProgram(fused, {}).value();
    with_other_grad += std::any_of(program.steps.begin(), program.steps.end(), [](auto& step) {
      return std::any_of(step.reads.begin(), step.reads.end(), [](const Use& use) {
        return use.operand == Operand{Slot::kOutputGrad, 1};
      });
    });
  }
  CHECK(with_other_grad >= 50);
  for (const std::string kind :
       {"+relu", "+add", "+add+relu", "+bn+add", "+bn+add+relu", "+relu+pool", "+pool",
        "convolution+relu", "+bias+pool", "+concat", "+concat+relu", "+average", "+relu+average",
        "+add+relu+average", "+bn+add+relu+average", "+clip", "+hard_swish", "+silu"}) {
    CAPTURE(kind);
    CHECK(kinds[kind] > 0);
  }
}

}  // namespace neap

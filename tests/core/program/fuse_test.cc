// Which layers become one, and that training has the same bits with them.
#include "neap/core/program/fuse.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "neap/core/program/passes.h"
#include "neap/core/step/operands.h"
#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/dropout.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/fusion/fused_relu.h"
#include "neap/layers/fusion/norm_pass.h"
#include "neap/layers/fusion/rules.h"
#include "neap/layers/join.h"
#include "neap/layers/norm/group_norm.h"
#include "neap/layers/pooling.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "tests/core/program/fused_layers.h"
#include "tests/random_graph.h"

namespace neap {
namespace {

using testing::FusedNet;
using testing::kConvolution;

TEST_CASE("a batch norm, the sum and the ReLU that follow it are one layer") {
  for (Mode mode : {Mode::kTraining, Mode::kInference}) {
    FusedNet net;
    std::string x = net.Add("conv1", kConvolution, {net.input});
    const std::string shortcut = net.Add("relu1", Relu{}, {net.Add("bn1", BatchNorm{}, {x})});
    x = net.Add("bn2", BatchNorm{}, {net.Add("conv2", kConvolution, {shortcut})});
    x = net.Add("relu2", Relu{}, {net.Add("add", Add{}, {x, shortcut})});
    CHECK(net.Fused(x, mode) == "conv1(input) bn1+relu(conv1) conv2(bn1) bn2+add+relu(conv2,bn1)");
  }
}

TEST_CASE("two batch norms that are added are one layer with the sum and the ReLU") {
  for (Mode mode : {Mode::kTraining, Mode::kInference}) {
    FusedNet net;
    const std::string x = net.Add("conv1", kConvolution, {net.input});
    const std::string a = net.Add("bn2", BatchNorm{}, {net.Add("conv2", kConvolution, {x})});
    const std::string b = net.Add("bn3", BatchNorm{}, {net.Add("conv3", kConvolution, {x})});
    const std::string sum = net.Add("add", Add{}, {a, b});
    CHECK(net.Fused(net.Add("relu", Relu{}, {sum}), mode) ==
          "conv1(input) conv2(conv1) conv3(conv1) bn2+bn+add+relu(conv2,conv3)");
  }
}

TEST_CASE("a group norm or an instance norm and the activation behind it are one layer") {
  for (Mode mode : {Mode::kTraining, Mode::kInference}) {
    FusedNet net;
    std::string x = net.Add("gn1", GroupNorm{.groups = 3}, {net.input});
    x = net.Add("in", InstanceNorm{}, {net.Add("silu", Silu{}, {x})});
    x = net.Add("gn2", GroupNorm{.bias = false}, {net.Add("leaky", LeakyRelu{}, {x})});
    x = net.Add("gn3", GroupNorm{}, {net.Add("gelu", Gelu{}, {x})});
    const std::string relu = net.Add("relu", Relu{}, {x});
    CHECK(net.Fused(relu, mode) == "gn1+silu(input) in+leaky_relu(gn1) gn2+gelu(in) gn3+relu(gn2)");
  }
}

TEST_CASE("a group norm that another layer reads, too, and one before another layer stay apart") {
  FusedNet net;
  const std::string norm = net.Add("gn", GroupNorm{}, {net.input});
  const std::string sum = net.Add("add", Add{}, {norm, net.Add("silu", Silu{}, {norm})});
  const std::string last = net.Add("gn2", GroupNorm{}, {sum});
  CHECK(net.Fused(net.Add("tanh", Tanh{}, {last})) ==
        "gn(input) silu(gn) add(gn,silu) gn2(add) tanh(gn2)");
}

TEST_CASE("a batch norm before another one that takes part in a sum stays apart") {
  FusedNet net;
  const std::string x = net.Add("conv1", kConvolution, {net.input});
  const std::string a = net.Add("bn1", BatchNorm{}, {x});
  const std::string b = net.Add("bn2", BatchNorm{}, {a});
  const std::string c = net.Add("tanh", Tanh{}, {net.Add("conv2", kConvolution, {net.input})});
  CHECK(net.Fused(net.Add("add", Add{}, {c, b})) ==
        "conv1(input) bn1(conv1) conv2(input) tanh(conv2) bn2+add(bn1,tanh)");
}

TEST_CASE("a ReLU is pooled in its own pass, behind a batch norm or a convolution") {
  const MaxPool pool = {.kernel = 2, .stride = 1};
  FusedNet norm;
  std::string x = norm.Add("bn", BatchNorm{}, {norm.Add("conv", kConvolution, {norm.input})});
  x = norm.Add("pool", pool, {norm.Add("relu", Relu{}, {x})});
  CHECK(norm.Fused(x) == "conv(input) bn+relu+pool(conv)");
  FusedNet plain;
  x = plain.Add("relu", Relu{}, {plain.Add("conv", kConvolution, {plain.input})});
  CHECK(plain.Fused(plain.Add("pool", pool, {x})) == "conv(input) relu+pool(conv)");
  FusedNet shared;
  x = shared.Add("relu", Relu{}, {shared.Add("conv", kConvolution, {shared.input})});
  const std::string other = shared.Add("other", pool, {x});
  x = shared.Add("pool", pool, {x});
  CHECK(shared.Fused(shared.Add("add", Add{}, {x, other})) ==
        "conv(input) relu(conv) other(relu) pool(relu) add(pool,other)");
}

TEST_CASE("pooling without a ReLU, after a sum, or of large windows stays apart") {
  const MaxPool pool = {.kernel = 2, .stride = 1};
  FusedNet alone;
  std::string x = alone.Add("bn", BatchNorm{}, {alone.input});
  CHECK(alone.Fused(alone.Add("pool", pool, {x})) == "bn(input) pool(bn)");
  FusedNet sum;
  const std::string a = sum.Add("conv", kConvolution, {sum.input});
  x = sum.Add("add", Add{}, {sum.Add("bn", BatchNorm{}, {a}), sum.Add("c", kConvolution, {a})});
  x = sum.Add("pool", pool, {sum.Add("relu", Relu{}, {x})});
  CHECK(sum.Fused(x) == "conv(input) bn(conv) c(conv) add(bn,c) relu+pool(add)");
  CHECK(CanPoolRelu({.kernel = {15, 17}}, 2));
  CHECK(!CanPoolRelu({.kernel = 16}, 2));
}

TEST_CASE("how large a pooled window is depends on the number of axes") {
  // The layers of a ReLU, alone and behind a batch norm, and a pooling of a cube of that size.
  const auto fused = [](const Shape& input, int64_t side) {
    Graph graph({.name = "net", .batch = 2});
    const MaxPool pool = {.kernel = side, .stride = 1};
    std::string x =
        graph.Add("relu", Relu{}, {graph.Add("conv", kConvolution, {graph.Input(input)})});
    x = graph.Add("bn", BatchNorm{}, {graph.Add("pool", pool, {x})});
    x = graph.Add("pool2", pool, {graph.Add("relu2", Relu{}, {x})});
    graph.Loss(graph.Add("fc", FullyConnected{.out_features = 4}, {x}), SoftmaxCrossEntropy{});
    return testing::FusedText(graph);
  };
  const std::string both = "conv(input) relu+pool(conv) bn+relu+pool(relu)";
  const std::string apart = "conv(input) relu(conv) pool(relu) bn+relu(pool) pool2(bn)";
  CHECK(fused({3, 40}, 16) == both);
  CHECK(fused({3, 16, 16, 16}, 6) == both);   // 216 elements
  CHECK(fused({3, 16, 16, 16}, 7) == apart);  // 343
}

TEST_CASE("what is averaged over the images is a part of the batch norm before it") {
  for (Mode mode : {Mode::kTraining, Mode::kInference}) {
    FusedNet net;
    const std::string x = net.Add("conv1", kConvolution, {net.input});
    const std::string y = net.Add("bn", BatchNorm{}, {net.Add("conv2", kConvolution, {x})});
    const std::string sum = net.Add("relu", Relu{}, {net.Add("add", Add{}, {y, x})});
    CHECK(net.Fused(net.Add("pool", GlobalAveragePool{}, {sum}), mode) ==
          "conv1(input) conv2(conv1) bn+add+relu+average(conv2,conv1)");
    FusedNet joint;
    const std::string a = joint.Add("bn1", BatchNorm{}, {joint.Add("a", Tanh{}, {joint.input})});
    const std::string b = joint.Add("bn2", BatchNorm{}, {joint.Add("b", Relu{}, {joint.input})});
    const std::string both = joint.Add("add", Add{}, {a, b});
    CHECK(joint.Fused(joint.Add("pool", GlobalAveragePool{}, {both}), mode) ==
          "a(input) b(input) bn1+bn+add+average(a,b)");
    FusedNet plain;
    const std::string relu =
        plain.Add("relu", Relu{}, {plain.Add("bn", BatchNorm{}, {plain.input})});
    CHECK(plain.Fused(plain.Add("pool", GlobalAveragePool{}, {relu}), mode) ==
          "bn+relu+average(input)");
  }
}

TEST_CASE("a batch norm that adds and averages has a mask of what it averages, and can be kept") {
  const TensorSpec x = {{2, 3, 4, 4}};
  const NormPass layer = {
      .addend = NormPass::Raw{}, .activation = Relu{}, .sink = GlobalAveragePool{}};
  const LayerSpec spec = layer.Specify({.inputs = {x, x}}).value();
  CHECK(spec.output.shape == Shape{2, 3, 1, 1});
  CHECK(spec.saved[2].tensor.elements() == x.elements() / 4);
  CHECK(spec.traits == LayerTraits{.checkpoint = true, .coupled_by_statistics = true});
  CHECK(spec.steps[0].in_place.empty());
  const std::vector<std::pair<Operand, Operand>> over_x = {{operands::Dx(), operands::X()}};
  CHECK(spec.steps[1].in_place == over_x);
}

TEST_CASE("averages of windows, of a shared tensor, or behind no batch norm stay apart") {
  FusedNet windows;
  std::string x = windows.Add("bn", BatchNorm{}, {windows.input});
  CHECK(windows.Fused(windows.Add("pool", AveragePool{}, {x})) == "bn(input) pool(bn)");
  FusedNet shared;
  x = shared.Add("bn", BatchNorm{}, {shared.input});
  const std::string mean = shared.Add("pool", GlobalAveragePool{}, {x});
  const std::string all = shared.Add("all", MaxPool{.kernel = 4}, {x});
  CHECK(shared.Fused(shared.Add("add", Add{}, {mean, all})) ==
        "bn(input) pool(bn) all(bn) add(pool,all)");
  FusedNet other;
  x = other.Add("relu", Relu{}, {other.Add("conv", kConvolution, {other.input})});
  CHECK(other.Fused(other.Add("pool", GlobalAveragePool{}, {x})) ==
        "conv(input) relu(conv) pool(relu)");
}

TEST_CASE("what another layer reads too stays a tensor") {
  FusedNet net;
  const std::string bn = net.Add("bn", BatchNorm{}, {net.input});
  const std::string relu = net.Add("relu", Relu{}, {bn});
  CHECK(net.Fused(net.Add("add", Add{}, {relu, bn})) == "bn(input) relu(bn) add(relu,bn)");
}

TEST_CASE("a sum of three, of a tensor with itself, or with the norm's own input stays apart") {
  FusedNet three;
  const std::string bn = three.Add("bn", BatchNorm{}, {three.input});
  const std::string r1 = three.Add("r1", Sigmoid{}, {three.input});
  const std::string r2 = three.Add("r2", Tanh{}, {three.input});
  CHECK(three.Fused(three.Add("add", Add{}, {bn, r1, r2})) ==
        "bn(input) r1(input) r2(input) add(bn,r1,r2)");
  FusedNet twice;
  const std::string same = twice.Add("bn", BatchNorm{}, {twice.input});
  CHECK(twice.Fused(twice.Add("add", Add{}, {same, same})) == "bn(input) add(bn,bn)");
  FusedNet own;
  const std::string x = own.Add("conv", kConvolution, {own.input});
  const std::string y = own.Add("bn", BatchNorm{}, {x});
  CHECK(own.Fused(own.Add("add", Add{}, {y, x})) == "conv(input) bn(conv) add(bn,conv)");
}

TEST_CASE("layers stay apart if the gradients of their input would be summed in another order") {
  FusedNet net;
  const std::string x = net.Add("conv", kConvolution, {net.input});
  const std::string a = net.Add("bn", BatchNorm{}, {x});
  const std::string b = net.Add("tanh", Tanh{}, {x});
  CHECK(net.Fused(net.Add("add", Add{}, {a, b})) == "conv(input) bn(conv) tanh(conv) add(bn,tanh)");
}

TEST_CASE("a batch norm and the activation of a mobile network behind it are one layer") {
  for (Mode mode : {Mode::kTraining, Mode::kInference}) {
    FusedNet net;
    std::string x = net.Add("conv1", kConvolution, {net.input});
    x = net.Add("relu6", Clip{}, {net.Add("bn1", BatchNorm{}, {x})});
    x = net.Add("silu", Silu{}, {net.Add("bn2", BatchNorm{}, {x})});
    x = net.Add("hard_swish", HardSwish{}, {net.Add("bn3", BatchNorm{}, {x})});
    CHECK(net.Fused(net.Add("relu", Relu{}, {x}), mode) ==
          "conv1(input) bn1+clip(conv1) bn2+silu(bn1) bn3+hard_swish(bn2) relu(bn3)");
  }
}

TEST_CASE("such an activation behind a sum, or of a shared batch norm, stays apart") {
  FusedNet net;
  const std::string bn = net.Add("bn1", BatchNorm{}, {net.input});
  const std::string a = net.Add("clip", Clip{}, {bn});
  const std::string b = net.Add("bn2", BatchNorm{}, {net.Add("conv", kConvolution, {bn})});
  const std::string sum = net.Add("add", Add{}, {b, a});
  CHECK(net.Fused(net.Add("silu", Silu{}, {sum})) ==
        "bn1(input) clip(bn1) conv(bn1) bn2+add(conv,clip) silu(bn2)");
}

TEST_CASE("tanh and dropout are not fused, and a graph can do without fusion") {
  FusedNet net;
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
        seed, {.layout = seed % 2 == 0 ? Layout::kChannelsFirst : Layout::kChannelsLast,
               .residual = seed / 7 % 3 == 1,
               .dense = seed / 7 % 3 == 2,
               .mobile = seed % 4 == 3});
    const ResolvedGraph fused =
        Fuse(Resolve(graph, Mode::kTraining).value(), Mode::kTraining, GpuRules());
    for (const ResolvedLayer& layer : fused.layers) ++kinds[testing::FusedParts(layer.layer)];
    const Program program = BuildProgram(fused, {}).value();
    with_other_grad += std::any_of(program.steps.begin(), program.steps.end(), [](auto& step) {
      return std::any_of(step.reads.begin(), step.reads.end(), [](const Use& use) {
        return use.operand == Operand{Slot::kOutputGrad, 1};
      });
    });
  }
  CHECK(with_other_grad >= 50);
  for (const std::string kind : {"+relu",
                                 "+add",
                                 "+add+relu",
                                 "+bn+add",
                                 "+bn+add+relu",
                                 "+relu+pool",
                                 "+pool",
                                 "convolution+relu",
                                 "+bias+pool",
                                 "+concat",
                                 "+concat+relu",
                                 "+average",
                                 "+relu+average",
                                 "+add+relu+average",
                                 "+bn+add+relu+average",
                                 "+clip",
                                 "+hard_swish",
                                 "+silu",
                                 "+scale+add",
                                 "+drop+add",
                                 "+scale+drop+add",
                                 "convolution+add"}) {
    CAPTURE(kind);
    CHECK(kinds[kind] > 0);
  }
}

}  // namespace
}  // namespace neap

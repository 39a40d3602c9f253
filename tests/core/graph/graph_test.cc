#include "neap/core/graph/graph.h"

#include <doctest/doctest.h>

#include <string>

#include "neap/core/graph/source.h"
#include "neap/layers/activation.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/join.h"
#include "neap/layers/pooling.h"
#include "neap/layers/softmax_cross_entropy.h"

namespace neap {
namespace {

Graph NewGraph(int64_t batch = 2) { return Graph({.name = "net", .batch = batch}); }

std::string ErrorOf(const Graph& graph) {
  const auto resolved = Resolve(graph, Mode::kTraining);
  CHECK(resolved.status().code() == absl::StatusCode::kInvalidArgument);
  return std::string(resolved.status().message());
}

TEST_CASE("a graph resolves to layers in execution order with shapes") {
  Graph net = NewGraph(64);
  std::string x = net.Input({1, 28, 28});
  x = net.Add("fc1", FullyConnected{.out_features = 100}, {x});
  x = net.Add("relu1", Relu{}, {x});
  x = net.Add("fc2", FullyConnected{.out_features = 10}, {x});
  CHECK(net.Loss(x, SoftmaxCrossEntropy{}) == "loss");
  const ResolvedGraph resolved = Resolve(net, Mode::kTraining).value();
  std::string text;
  for (const ResolvedLayer& layer : resolved.layers) {
    CHECK(resolved.layers[layer.id.index()].name == layer.name);
    text += layer.name + ":" + layer.spec.output.shape.ToString() + " ";
  }
  CHECK(text ==
        "input:64x1x28x28 fc1:64x100x1x1 relu1:64x100x1x1 fc2:64x10x1x1 labels:64 loss:64x10x1x1 ");
}

TEST_CASE("layers may be stated in any order") {
  Graph net = NewGraph();
  net.Loss("fc", SoftmaxCrossEntropy{});
  net.Add("fc", FullyConnected{.out_features = 10}, {"relu"});
  net.Add("relu", Relu{}, {"input"});
  net.Input({1, 4, 4});
  CHECK(Resolve(net, Mode::kTraining).ok());
}

TEST_CASE("a layer that reads an unknown layer is named") {
  Graph net = NewGraph();
  net.Input({1, 4, 4});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 10}, {"conv7"}), SoftmaxCrossEntropy{});
  CHECK(ErrorOf(net) == "layer 'fc': input 'conv7' is not a layer");
}

TEST_CASE("two layers of one name are refused") {
  Graph net = NewGraph();
  net.Add("a", Relu{}, {net.Input({1, 4, 4})});
  net.Add("a", Relu{}, {"input"});
  CHECK(ErrorOf(net) == "layer 'a': two layers have this name");
}

TEST_CASE("a layer without a name is refused") {
  Graph net = NewGraph();
  net.Add("", Relu{}, {net.Input({1, 4, 4})});
  CHECK(ErrorOf(net) == "layer number 1 has no name");
}

TEST_CASE("a name that is not UTF-8 is refused, with its bytes as escapes") {
  Graph net = NewGraph();
  std::string x = net.Input({3, 4, 4});
  x = net.Add("r\xc3\xa9seau", Relu{}, {x});
  x = net.Add("fc", FullyConnected{.out_features = 2}, {x});
  net.Loss(x, SoftmaxCrossEntropy{});
  CHECK(Resolve(net, Mode::kTraining).ok());
  net.Add("fc\xff\xfe", FullyConnected{.out_features = 2}, {x});
  CHECK(ErrorOf(net) == "layer 'fc\\xff\\xfe': its name is not UTF-8");
}

TEST_CASE("a cycle is refused, naming a layer on it and not one that only depends on it") {
  Graph net = NewGraph();
  const std::string x = net.Input({1, 4, 4});
  net.Loss("fc", SoftmaxCrossEntropy{});
  net.Add("fc", FullyConnected{.out_features = 10}, {"behind"});
  net.Add("behind", Relu{}, {"c"});
  net.Add("a", Add{}, {x, "c"});
  net.Add("b", Relu{}, {"a"});
  net.Add("c", Relu{}, {"b"});
  const std::string error = ErrorOf(net);
  CAPTURE(error);
  const bool on_cycle = error == "layer 'a': lies on a cycle" ||
                        error == "layer 'b': lies on a cycle" ||
                        error == "layer 'c': lies on a cycle";
  CHECK(on_cycle);
}

TEST_CASE("a layer that reads itself is a cycle") {
  Graph net = NewGraph();
  net.Add("self", Add{}, {net.Input({1, 4, 4}), "self"});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 10}, {"self"}), SoftmaxCrossEntropy{});
  CHECK(ErrorOf(net) == "layer 'self': lies on a cycle");
}

TEST_CASE("an unused output is refused") {
  Graph net = NewGraph();
  const std::string x = net.Input({1, 4, 4});
  net.Add("dangling", Relu{}, {x});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 10}, {x}), SoftmaxCrossEntropy{});
  CHECK(ErrorOf(net) == "layer 'dangling': its output is unused (only a loss may end a network)");
}

TEST_CASE("shapes that do not fit are refused with both shapes") {
  Graph net = NewGraph();
  const std::string x = net.Input({3, 8, 8});
  const std::string y = net.Add("pool", MaxPool{}, {x});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 10}, {net.Add("sum", Add{}, {x, y})}),
           SoftmaxCrossEntropy{});
  CHECK(ErrorOf(net) ==
        "layer 'sum': cannot add input 1 of shape 2x3x4x4 to input 0 of shape 2x3x8x8");
}

TEST_CASE("a batch, image or layer without elements is refused") {
  for (int64_t batch : {0, -1}) {
    Graph net = NewGraph(batch);
    net.Loss(net.Add("fc", FullyConnected{.out_features = 10}, {net.Input({1, 4, 4})}),
             SoftmaxCrossEntropy{});
    CHECK(ErrorOf(net).find("layer 'input'") == 0);
  }
  Graph empty = NewGraph();
  empty.Loss(empty.Add("fc", FullyConnected{.out_features = 10}, {empty.Input({1, 0, 4})}),
             SoftmaxCrossEntropy{});
  CHECK(ErrorOf(empty).find("layer 'input'") == 0);
  Graph window = NewGraph();
  const std::string x = window.Add("pool", MaxPool{.kernel = 5}, {window.Input({1, 4, 4})});
  window.Loss(window.Add("fc", FullyConnected{.out_features = 10}, {x}), SoftmaxCrossEntropy{});
  CHECK(ErrorOf(window).find("layer 'pool': kernel 5x5") == 0);
}

TEST_CASE("shapes whose size overflows are refused, not wrapped around") {
  Graph image = NewGraph(int64_t{1} << 30);
  image.Loss(image.Add("fc", FullyConnected{.out_features = 10},
                       {image.Input({1 << 20, 1 << 20, 1 << 20})}),
             SoftmaxCrossEntropy{});
  CHECK(ErrorOf(image).find("is larger than 16 TiB") != std::string::npos);
  Graph params = NewGraph();
  params.Loss(
      params.Add("fc", FullyConnected{.out_features = int64_t{1} << 60}, {params.Input({1, 4, 4})}),
      SoftmaxCrossEntropy{});
  CHECK(ErrorOf(params).find("layer 'fc'") == 0);
}

TEST_CASE("only a sum may read one layer twice") {
  Graph sum = NewGraph();
  const std::string x = sum.Input({1, 4, 4});
  sum.Loss(sum.Add("fc", FullyConnected{.out_features = 10}, {sum.Add("sum", Add{}, {x, x})}),
           SoftmaxCrossEntropy{});
  CHECK(Resolve(sum, Mode::kTraining).ok());
  Graph concat = NewGraph();
  concat.Input({1, 4, 4});
  concat.Add("twice", Concat{}, {"input", "input"});
  concat.Loss(concat.Add("fc", FullyConnected{.out_features = 10}, {"twice"}),
              SoftmaxCrossEntropy{});
  CHECK(ErrorOf(concat) == "layer 'twice': reads the same input twice");
}

TEST_CASE("a network has one loss and one input") {
  Graph none = NewGraph();
  none.Add("fc", FullyConnected{.out_features = 10}, {none.Input({1, 4, 4})});
  CHECK(ErrorOf(none).find("layer 'fc'") == 0);

  Graph two = NewGraph();
  const std::string x = two.Add("fc", FullyConnected{.out_features = 10}, {two.Input({1, 4, 4})});
  two.Loss(x, SoftmaxCrossEntropy{});
  two.Add({"loss2", SoftmaxCrossEntropy{}, {x, "labels"}, LayerRole::kLoss});
  CHECK(ErrorOf(two) == "a network has one main loss, but this one has 2");

  CHECK(ErrorOf(NewGraph()) == "a network has one input, but this one has 0");
}

// A loss that does not keep its result in the expected state.
struct Forgetful {
  static constexpr std::string_view kType = "forgetful";
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const {
    absl::StatusOr<LayerSpec> spec = SoftmaxCrossEntropy{}.Specify(context);
    if (spec.ok()) spec->states.clear();
    return spec;
  }
  friend bool operator==(const Forgetful&, const Forgetful&) = default;
};

TEST_CASE("only a layer added as the loss may end a network") {
  Graph net = NewGraph();
  const std::string x = net.Add("fc", FullyConnected{.out_features = 10}, {net.Input({1, 4, 4})});
  net.Add("labels", Labels{.tensor = {{2}, DType::kInt32}}, {});
  net.Add("inner", SoftmaxCrossEntropy{}, {x, "labels"});
  CHECK(ErrorOf(net) == "layer 'inner': its output is unused (only a loss may end a network)");

  Graph forgetful = NewGraph();
  forgetful.Loss(
      forgetful.Add("fc", FullyConnected{.out_features = 10}, {forgetful.Input({1, 4, 4})}),
      Forgetful{});
  CHECK(
      ErrorOf(forgetful) ==
      "layer 'loss': a loss keeps the mean loss and the number of correct predictions in its state "
      "0, fp32 of shape 2");
}

TEST_CASE("only Input and Loss add images and labels") {
  Graph net = NewGraph();
  net.Input({1, 4, 4});
  net.Add("more", Images{.tensor = {{2, 1, 4, 4}}}, {});
  net.Loss(
      net.Add("fc", FullyConnected{.out_features = 10}, {net.Add("sum", Add{}, {"input", "more"})}),
      SoftmaxCrossEntropy{});
  CHECK(ErrorOf(net) ==
        "layer 'more': has no forward step, and is neither the images nor the labels");
}

TEST_CASE("a graph built from another's layers is the same network") {
  Graph net = NewGraph();
  net.Loss(net.Add("fc", FullyConnected{.out_features = 10}, {net.Input({1, 4, 4})}),
           SoftmaxCrossEntropy{});
  Graph again = NewGraph();
  for (const GraphLayer& layer : net.layers()) again.Add(layer);
  const ResolvedGraph resolved = Resolve(again, Mode::kTraining).value();
  std::string roles;
  for (const ResolvedLayer& layer : resolved.layers)
    roles += layer.name + ":" + std::to_string(static_cast<int>(layer.role)) + " ";
  CHECK(roles == "input:1 fc:0 labels:2 loss:3 ");
  CHECK(OutputRole(resolved.layers[0]) == Role::kInput);
  CHECK(OutputRole(resolved.layers[1]) == Role::kActivation);
  CHECK(OutputRole(resolved.layers[2]) == Role::kLabel);
}

TEST_CASE("only auxiliary losses depend on the layers that inference leaves out") {
  Graph net = NewGraph();
  std::string x = net.Input({1, 4, 4});
  x = net.Add("trunk", Relu{}, {x});
  const std::string y = net.Add("aux.relu", Relu{}, {x});
  const std::string scores = net.Add("aux.fc", FullyConnected{.out_features = 10}, {y});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 10}, {x}), SoftmaxCrossEntropy{});
  CHECK(net.AuxiliaryLoss(scores, SoftmaxCrossEntropy{.auxiliary_weight = 0.3F}) == "aux.fc.loss");
  for (const Mode mode : {Mode::kTraining, Mode::kInference}) {
    const ResolvedGraph resolved = Resolve(net, mode).value();
    for (const ResolvedLayer& layer : resolved.layers)
      CHECK(layer.training_only == (layer.name.find("aux.") == 0));
  }
}

TEST_CASE("an auxiliary loss has a weight, and the main loss has none") {
  const auto error_of = [](const SoftmaxCrossEntropy& main, const SoftmaxCrossEntropy& auxiliary) {
    Graph net = NewGraph();
    const std::string x = net.Input({1, 4, 4});
    net.Loss(net.Add("fc", FullyConnected{.out_features = 10}, {x}), main);
    net.AuxiliaryLoss(net.Add("aux", FullyConnected{.out_features = 10}, {x}), auxiliary);
    return ErrorOf(net);
  };
  CHECK(error_of({}, {}) ==
        "layer 'aux.loss': an auxiliary loss needs an auxiliary weight, with which it adds to the "
        "main loss (StateSpec::accumulates of its state 0)");
  CHECK(error_of({.auxiliary_weight = 1.0F}, {.auxiliary_weight = 1.0F}) ==
        "layer 'loss': the main loss has an auxiliary weight, or accumulates its state 0 "
        "(StateSpec::accumulates), as only auxiliary losses do");
  CHECK(error_of({}, {.auxiliary_weight = 0.0F}) ==
        "layer 'aux.loss': its auxiliary weight is 0, expected a positive number");
  Graph alone = NewGraph();
  const std::string x = alone.Input({1, 4, 4});
  alone.AuxiliaryLoss(x, SoftmaxCrossEntropy{.auxiliary_weight = 1.0F});
  CHECK(ErrorOf(alone) == "layer 'input.loss': input 'labels' is not a layer");
}

}  // namespace
}  // namespace neap

#include "neap/core/graph/graph.h"

#include <doctest/doctest.h>

#include <string>

#include "neap/core/graph/source.h"
#include "neap/core/graph/with_options.h"
#include "neap/layers/activation.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/join.h"
#include "neap/layers/pooling.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/layers/target_loss.h"

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
  CHECK(ErrorOf(net) ==
        "layer 'dangling': its output is unused (a loss or an output ends a network)");
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

TEST_CASE("a network has an input, and a loss to be trained, or else an output") {
  CHECK(ErrorOf(NewGraph()) == "the network has no input");
  Graph net = NewGraph();
  const std::string x = net.Add("fc", FullyConnected{.out_features = 10}, {net.Input({1, 4, 4})});
  CHECK(ErrorOf(net) == "layer 'fc': its output is unused (a loss or an output ends a network)");
  net.Output(x);
  CHECK(ErrorOf(net) ==
        "the network has no loss, which training minimises, and no output whose gradient is given");
  CHECK(Resolve(net, Mode::kInference).ok());
  net.Output("missing");
  CHECK(ErrorOf(net) == "output 'missing' is not a layer");
}

TEST_CASE("several feeds, losses and outputs") {
  Graph net({.name = "net", .batch = 2, .dtype = DType::kBf16, .layout = Layout::kChannelsLast});
  net.Input("image", {3, 4, 4});
  net.Input("age", {1, 1, 1}, DType::kFp32);
  net.Input("species", {}, DType::kInt32);
  const std::string x = net.Add("fc", FullyConnected{.out_features = 10}, {"image"});
  const std::string y = net.Add("estimate", FullyConnected{.out_features = 1}, {"image"});
  net.Loss("species_loss", SoftmaxCrossEntropy{}, {x, "species"});
  net.Loss("age_loss", MeanSquaredError{.weight = 0.1F}, {y, "age"});
  net.Output(x);
  const auto check = [](const Graph& graph, const TensorSpec& image, const TensorSpec& age) {
    const ResolvedGraph resolved = Resolve(graph, Mode::kTraining).value();
    for (const ResolvedLayer& layer : resolved.layers) {
      CAPTURE(layer.name);
      CHECK(layer.is_target == (layer.name == "age" || layer.name == "species"));
      const std::vector<LayerResult> result = {{.name = "fc"}};
      CHECK(layer.results == (layer.name == "fc" ? result : std::vector<LayerResult>()));
      CHECK_FALSE(layer.training_only);
      if (layer.name == "image") CHECK(layer.spec.output == image);
      if (layer.name == "age") CHECK(layer.spec.output == age);
    }
  };
  check(net, {{2, 3, 4, 4}, DType::kBf16, Layout::kChannelsLast},
        {{2, 1, 1, 1}, DType::kFp32, Layout::kChannelsLast});
  // Outputs, and what follows the network's type, are those of the changed graph, too.
  check(WithOptions(net, {.name = "net", .batch = 5}),
        {{5, 3, 4, 4}, DType::kFp32, Layout::kChannelsFirst},
        {{5, 1, 1, 1}, DType::kFp32, Layout::kChannelsFirst});
}

TEST_CASE("a feed that other layers read besides a loss is no target") {
  Graph net = NewGraph();
  const std::string x = net.Input({1, 4, 4});
  net.Loss("loss", MeanSquaredError{}, {net.Add("relu", Relu{}, {x}), x});
  const ResolvedGraph resolved = Resolve(net, Mode::kTraining).value();
  for (const ResolvedLayer& layer : resolved.layers) CHECK_FALSE(layer.is_target);
  Graph direct = NewGraph();
  direct.Loss("loss", MeanSquaredError{},
              {direct.Input({1, 4, 4}), direct.Input("y", {1, 4, 4}, DType::kFp32)});
  const ResolvedGraph of_direct = Resolve(direct, Mode::kTraining).value();
  for (const ResolvedLayer& layer : of_direct.layers) CHECK(layer.is_target == (layer.name == "y"));
}

TEST_CASE("feeds are no outputs, and have floats or int32") {
  Graph output = NewGraph();
  output.Loss(output.Add("fc", FullyConnected{.out_features = 10}, {output.Input({1, 4, 4})}),
              SoftmaxCrossEntropy{});
  Graph bytes = output;
  output.Output("input");
  CHECK(ErrorOf(output) == "layer 'input': neither a feed nor an auxiliary loss is an output");
  bytes.Input("bytes", {3}, DType::kUInt8);
  bytes.Output("bytes");
  CHECK(ErrorOf(bytes) == "layer 'bytes': a feed has floats or int32, not uint8");
}

TEST_CASE("the first extent of every feed is the batch") {
  Graph net = NewGraph();
  net.Add({"input", Feed{.tensor = {{3, 1, 4, 4}}}, {}, LayerRole::kFeed});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 10}, {"input"}), SoftmaxCrossEntropy{});
  CHECK(ErrorOf(net) ==
        "layer 'input': its shape is 3x1x4x4, but its first extent must be the batch, 2");
}

TEST_CASE("a shared parameter begins as its owner's, and has its shape") {
  const auto shared = [](const std::string& param, const std::string& owner) {
    Graph net = NewGraph();
    const std::string x = net.Input({1, 4, 4});
    net.Add("a", FullyConnected{.out_features = 16}, {x});
    net.Add("b", FullyConnected{.out_features = 16}, {x});
    net.Add("c", FullyConnected{.out_features = 10}, {net.Add("sum", Add{}, {"a", "b"})});
    net.Loss("c", SoftmaxCrossEntropy{});
    net.Share(param, owner);
    return net;
  };
  const ResolvedGraph resolved = Resolve(shared("b.weight", "a.weight"), Mode::kTraining).value();
  for (const ResolvedLayer& layer : resolved.layers) {
    if (layer.name != "b") continue;
    CHECK(ParamName(layer, layer.spec.params[0]) == "a.weight");
    CHECK(ParamName(layer, layer.spec.params[1]) == "b.bias");
  }
  CHECK(ErrorOf(shared("c.weight", "a.weight")) ==
        "layer 'c': its parameter 'weight' is 10x16x1x1 fp32 nchw, but 'a.weight' is 16x1x4x4 "
        "fp32 nchw");
  CHECK(ErrorOf(shared("b.weight", "a.bias")) ==
        "layer 'b': its parameter 'weight' is 16x1x4x4 fp32 nchw, but 'a.bias' is 16 fp32 nchw");
  CHECK(ErrorOf(shared("b.weights", "a.weight")) ==
        "parameter 'b.weights' cannot be 'a.weight': no layer has 'b.weights'");
  CHECK(ErrorOf(shared("b.weight", "b.weight")) == "parameter 'b.weight' owns itself");
  CHECK(ErrorOf(shared("a.bias", "a.weight")) == "layer 'a': shares 'a.bias' with itself");
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
  net.Input("labels", {}, DType::kInt32);
  net.Add("inner", SoftmaxCrossEntropy{}, {x, "labels"});
  CHECK(ErrorOf(net) == "layer 'inner': its output is unused (a loss or an output ends a network)");

  Graph forgetful = NewGraph();
  forgetful.Loss(
      forgetful.Add("fc", FullyConnected{.out_features = 10}, {forgetful.Input({1, 4, 4})}),
      Forgetful{});
  CHECK(
      ErrorOf(forgetful) ==
      "layer 'loss': a loss keeps the mean loss and the number of correct predictions in its state "
      "0, fp32 of shape 2");
}

TEST_CASE("only Input and Loss add feeds") {
  Graph net = NewGraph();
  net.Input({1, 4, 4});
  net.Add("more", Feed{.tensor = {{2, 1, 4, 4}}}, {});
  net.Loss(
      net.Add("fc", FullyConnected{.out_features = 10}, {net.Add("sum", Add{}, {"input", "more"})}),
      SoftmaxCrossEntropy{});
  CHECK(ErrorOf(net) == "layer 'more': has no forward step, and is not a feed");
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
  CHECK(roles == "input:1 fc:0 labels:1 loss:2 ");
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
  CHECK(net.AuxiliaryLoss(scores, SoftmaxCrossEntropy{.weight = 0.3F}) == "aux.fc.loss");
  for (const Mode mode : {Mode::kTraining, Mode::kInference}) {
    const ResolvedGraph resolved = Resolve(net, mode).value();
    for (const ResolvedLayer& layer : resolved.layers)
      CHECK(layer.training_only == (layer.name.find("aux.") == 0));
  }
}

TEST_CASE("an auxiliary loss follows the loss whose target it reads") {
  Graph alone = NewGraph();
  const std::string x = alone.Input({1, 4, 4});
  alone.AuxiliaryLoss(x, SoftmaxCrossEntropy{});
  CHECK(ErrorOf(alone) == "layer 'input.loss': input 'labels' is not a layer");
}

}  // namespace
}  // namespace neap

#include "neap/nets/with_loss.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "neap/core/step/specify.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/loss/dice_loss.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/layers/target_loss.h"
#include "neap/layers/tokens/embedding.h"
#include "neap/layers/tokens/linear_cross_entropy.h"
#include "neap/nets/inception/googlenet.h"
#include "neap/nets/lenet.h"
#include "neap/nets/segmentation/unet.h"

namespace neap {
namespace {

TEST_CASE("label smoothing changes the loss of a network and nothing else") {
  for (const Graph& net : {nets::LeNet({.batch = 4}), nets::UNet({.image = 32, .batch = 2})}) {
    const Graph smoothed = nets::WithLabelSmoothing(net, 0.1F).value();
    CHECK(smoothed.options() == net.options());
    REQUIRE(smoothed.layers().size() == net.layers().size());
    for (size_t i = 0; i < net.layers().size(); ++i) {
      const GraphLayer& before = net.layers()[i];
      const GraphLayer& after = smoothed.layers()[i];
      CHECK(after.name == before.name);
      CHECK(after.inputs == before.inputs);
      CHECK(after.role == before.role);
      const Layer wanted = before.role == LayerRole::kLoss
                               ? Layer(SoftmaxCrossEntropy{.label_smoothing = 0.1F})
                               : before.layer;
      CHECK(after.layer == wanted);
    }
    const Graph plain = nets::WithLabelSmoothing(smoothed, 0).value();
    CHECK(plain.layers().back().layer == Layer(SoftmaxCrossEntropy{}));
  }
}

TEST_CASE("label smoothing outside its range is an error that names the loss") {
  for (float smoothing : {-0.1F, 1.0F}) {
    const Graph net = nets::WithLabelSmoothing(nets::LeNet({}), smoothing).value();
    const absl::Status status = Resolve(net, Mode::kTraining).status();
    CHECK(absl::IsInvalidArgument(status));
    CHECK(std::string(status.message()).find("layer 'loss': label smoothing is ") == 0);
  }
}

TEST_CASE("all losses of labels become another, with the weights that they had") {
  const Graph net = nets::GoogLeNet({.batch = 2, .aux_logits = true});
  const Graph changed = nets::WithLabelLoss(net, NnUNetLoss()).value();
  REQUIRE(changed.layers().size() == net.layers().size());
  int losses = 0;
  for (size_t i = 0; i < net.layers().size(); ++i) {
    GraphLayer wanted = net.layers()[i];
    if (const auto* const softmax = wanted.layer.As<SoftmaxCrossEntropy>()) {
      DiceLoss dice = NnUNetLoss();
      dice.weight = softmax->weight;
      wanted.layer = dice;
      ++losses;
    }
    CHECK(changed.layers()[i] == wanted);
  }
  CHECK(losses == 3);
  CHECK(nets::WithLabelLoss(net, FocalLoss{}).status().message() ==
        "a loss of type focal_loss is none of neap's for labels");
  const Graph of_targets = nets::WithTargetLoss(net, MeanSquaredError{}).value();
  CHECK(std::string(nets::WithLabelLoss(of_targets, DiceLoss{}).status().message())
            .find("a loss of type mean_squared_error has no labels to compare with") !=
        std::string::npos);
}

TEST_CASE("a loss against targets reads one for each prediction") {
  const Graph net = nets::UNet({.image = 32, .batch = 2});
  const Graph changed = nets::WithTargetLoss(net, BinaryCrossEntropy{}).value();
  const ResolvedGraph before = Resolve(net, Mode::kTraining).value();
  const ResolvedGraph after = Resolve(changed, Mode::kTraining).value();
  REQUIRE(before.layers.size() == after.layers.size());
  CHECK(after.layers.back().layer == Layer(BinaryCrossEntropy{}));
  CHECK(after.layers.back().spec.output == before.layers.back().spec.output);
  const ResolvedLayer& targets = after.Producer(after.layers.back().inputs[1]);
  CHECK(targets.name == "targets");
  CHECK(targets.role == LayerRole::kFeed);
  CHECK(targets.spec.output == before.layers.back().spec.output);
  CHECK(nets::WithTargetLoss(changed, MeanSquaredError{})->layers().size() ==
        changed.layers().size());
  CHECK(nets::WithLabelSmoothing(changed, 0.1F).status().message() ==
        "layer 'loss': a loss of type binary_cross_entropy has no labels to smooth");
  CHECK(absl::IsInvalidArgument(nets::WithTargetLoss(Graph({}), MeanSquaredError{}).status()));
}

TEST_CASE("targets have the extents of predictions of images, sequences and volumes") {
  for (const Shape& image : {Shape{2, 9}, Shape{2, 6, 5}, Shape{2, 3, 4, 5}}) {
    CAPTURE(image.ToString());
    Graph net({.name = "n", .batch = 3});
    const std::string x = net.Add("conv", Convolution{.out_channels = 4, .kernel = 3, .padding = 1},
                                  {net.Input(image)});
    net.PixelLoss(x, SoftmaxCrossEntropy{},
                  Shape(Shape::Dims(image.dims().begin() + 1, image.dims().end())));
    const Graph changed = nets::WithTargetLoss(net, MeanSquaredError{}).value();
    const absl::StatusOr<ResolvedGraph> resolved = Resolve(changed, Mode::kTraining);
    REQUIRE_MESSAGE(resolved.ok(), resolved.status().ToString());
    const ResolvedLayer& loss = resolved->layers.back();
    CHECK(resolved->NameOf(loss.inputs[1]) == "targets");
    const Shape& predictions = resolved->SpecOf(loss.inputs[0]).shape;
    CHECK(predictions.rank() == image.rank() + 1);
    CHECK(predictions.c() == 4);
    CHECK(resolved->SpecOf(loss.inputs[1]).shape == predictions);
  }
}

TEST_CASE("a loss that an output names keeps its name") {
  Graph net({.name = "n", .batch = 3});
  net.Input("picture", {2, 4, 4});
  net.Input("kind", {}, DType::kInt32);
  net.Add("kinds", FullyConnected{.out_features = 5}, {"picture"});
  net.Loss("kind_loss", SoftmaxCrossEntropy{}, {"kinds", "kind"});
  net.Output("kind_loss");
  net.Output("kinds");
  const Graph changed = nets::WithTargetLoss(net, BinaryCrossEntropy{}).value();
  CHECK(changed.outputs() == net.outputs());
  CHECK(changed.layers().back() == GraphLayer{.name = "kind_loss",
                                              .layer = BinaryCrossEntropy{},
                                              .inputs = {"kinds", "targets"},
                                              .role = LayerRole::kLoss});
  for (const Mode mode : {Mode::kTraining, Mode::kInference}) {
    const absl::Status resolved = Resolve(changed, mode).status();
    CHECK_MESSAGE(resolved.ok(), resolved.ToString());
  }
}

TEST_CASE("a network without logits becomes one with them, of the same parameters") {
  Graph net({.name = "words", .batch = 2});
  net.Input("input", {4}, DType::kInt32);
  net.Input("next", {4}, DType::kInt32);
  net.Add("wte", Embedding{.vocabulary = 9, .channels = 3}, {"input"});
  net.Loss("head", LinearCrossEntropy{.classes = 9, .weight = 0.5F}, {"wte", "next"});
  net.Share("head.weight", "wte.weight");
  Graph changed = nets::WithLogits(net).value();
  Graph expected({.name = "words", .batch = 2});
  expected.Input("input", {4}, DType::kInt32);
  expected.Input("next", {4}, DType::kInt32);
  expected.Add("wte", Embedding{.vocabulary = 9, .channels = 3}, {"input"});
  expected.Add("head", Convolution{.out_channels = 9, .bias = false}, {"wte"});
  expected.Loss("head.labels", SoftmaxCrossEntropy{.weight = 0.5F}, {"head", "next"});
  expected.Share("head.weight", "wte.weight");
  CHECK(changed == expected);
  changed.Output("head");
  const ResolvedGraph resolved = Resolve(changed, Mode::kInference).value();
  const auto head = std::find_if(resolved.layers.begin(), resolved.layers.end(),
                                 [](const ResolvedLayer& layer) { return layer.name == "head"; });
  REQUIRE(head != resolved.layers.end());
  CHECK(head->spec.output.shape == Shape({2, 9, 4}));
  CHECK(nets::WithLogits(changed).value() == changed);
  net.Output("head");
  CHECK(absl::IsInvalidArgument(nets::WithLogits(net).status()));
}

TEST_CASE("auxiliary losses change with the main one and keep their weights") {
  const Graph net = nets::GoogLeNet({.image = 64, .batch = 2, .aux_logits = true});
  const auto losses_of = [](const Graph& graph) {
    std::vector<Layer> losses;
    for (const GraphLayer& layer : graph.layers()) {
      if (layer.role == LayerRole::kAuxiliaryLoss) losses.push_back(layer.layer);
    }
    return losses;
  };
  const Graph smoothed = nets::WithLabelSmoothing(net, 0.1F).value();
  CHECK(losses_of(smoothed) ==
        std::vector<Layer>(2, SoftmaxCrossEntropy{.label_smoothing = 0.1F, .weight = 0.3F}));
  const Graph against_targets = nets::WithTargetLoss(net, BinaryCrossEntropy{}).value();
  CHECK(losses_of(against_targets) == std::vector<Layer>(2, BinaryCrossEntropy{.weight = 0.3F}));
  CHECK(Resolve(against_targets, Mode::kTraining).ok());
  const Graph twice = nets::WithTargetLoss(net, MeanSquaredError{.weight = 2}).value();
  CHECK(losses_of(twice) == std::vector<Layer>(2, MeanSquaredError{.weight = 0.6F}));
  const auto main_of = [](const Graph& graph) {
    return std::find_if(graph.layers().begin(), graph.layers().end(),
                        [](const GraphLayer& layer) { return layer.role == LayerRole::kLoss; })
        ->layer;
  };
  CHECK(main_of(twice) == Layer(MeanSquaredError{.weight = 2}));
  Graph half({.name = "half", .batch = 2});
  const std::string scores =
      half.Add("scores", FullyConnected{.out_features = 3}, {half.Input({1, 2, 2})});
  half.Loss(scores, SoftmaxCrossEntropy{.weight = 0.5F});
  CHECK(main_of(nets::WithTargetLoss(half, MeanSquaredError{.weight = 3}).value()) ==
        Layer(MeanSquaredError{.weight = 1.5F}));
  CHECK(std::string(nets::WithTargetLoss(half, SoftmaxCrossEntropy{}).status().message())
            .find("layer 'loss': a loss of type softmax_cross_entropy cannot become one") == 0);
  CHECK(
      nets::WithTargetLoss(net, SoftmaxCrossEntropy{}).status().message() ==
      "layer 'aux1.fc2.loss': an auxiliary loss of type softmax_cross_entropy cannot become one of "
      "type softmax_cross_entropy with the same weight");
}

}  // namespace
}  // namespace neap

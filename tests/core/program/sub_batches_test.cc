#include "neap/core/program/sub_batches.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "neap/core/program/fuse.h"
#include "neap/core/program/passes.h"
#include "neap/core/program/program.h"
#include "neap/core/step/signature_text.h"
#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/convolution.h"
#include "neap/layers/devices/device_description.h"
#include "neap/layers/dropout.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/fusion/folded_convolution.h"
#include "neap/layers/fusion/rules.h"
#include "neap/layers/softmax_cross_entropy.h"

namespace neap {
namespace {

Graph TinyNet(DType dtype = DType::kFp32, int64_t batch = 4) {
  Graph net({.name = "tiny", .batch = batch, .dtype = dtype});
  std::string x = net.Input({1, 8, 8});
  x = net.Add("conv", Convolution{.out_channels = 2, .kernel = 3, .bias = false}, {x});
  x = net.Add("relu", Relu{}, {x});
  x = net.Add("drop", Dropout{}, {x});
  x = net.Add("fc", FullyConnected{.out_features = 4}, {x});
  net.Loss(x, SoftmaxCrossEntropy{});
  return net;
}

// A convolution, or a fully connected layer, with a batch norm behind it.
Graph NormalisedNet(int64_t batch, bool of_vectors = false) {
  Graph net({.name = "normalised", .batch = batch});
  std::string x = net.Input({2, 4, 4});
  x = of_vectors ? net.Add("first", FullyConnected{.out_features = 3}, {x})
                 : net.Add("first", Convolution{.out_channels = 3, .kernel = 3}, {x});
  x = net.Add("bn", BatchNorm{}, {x});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 4}, {x}), SoftmaxCrossEntropy{});
  return net;
}

std::string UsesText(const Program& program, const char* label, const std::vector<Use>& uses) {
  std::string text = uses.empty() ? "" : (label[0] == '\n' ? "" : " ") + std::string(label);
  for (const Use& use : uses) text += " " + program.tensor(use.tensor).name;
  return text;
}

std::string StepsText(const Program& program) {
  std::string text = "\n";
  for (const Step& step : program.steps) {
    text += program.StepName(step) + ":" + UsesText(program, "reads", step.reads) +
            UsesText(program, "writes", step.writes) +
            UsesText(program, "\n    adds to", step.accumulates) + "\n";
  }
  return text;
}

const Step& StepCalled(const Program& program, const std::string& name) {
  const auto found = std::find_if(program.steps.begin(), program.steps.end(),
                                  [&](const Step& s) { return program.StepName(s) == name; });
  REQUIRE_MESSAGE(found != program.steps.end(), name);
  return *found;
}

std::string Refusal(const Graph& graph, const ProgramOptions& options) {
  const absl::Status status = BuildProgram(graph, options).status();
  CHECK(absl::IsInvalidArgument(status));
  return std::string(status.message());
}

// Keeps the largest of all images; it does not declare that these are independent.
struct BatchMaximum {
  static constexpr std::string_view kType = "batch_maximum";
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const {
    return LayerSpec{.output = context.inputs[0], .steps = {{}}};
  }
  friend bool operator==(const BatchMaximum&, const BatchMaximum&) = default;
};

// A loss that writes its metrics and cannot add to them.
struct ForgetfulLoss {
  static constexpr std::string_view kType = "forgetful_loss";
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const {
    absl::StatusOr<LayerSpec> spec = SoftmaxCrossEntropy{}.Specify(context);
    spec->steps[0].accumulates_natively.clear();
    return spec;
  }
  friend bool operator==(const ForgetfulLoss&, const ForgetfulLoss&) = default;
};

// A folded convolution that claims not to couple images.
struct IndependentFolded {
  static constexpr std::string_view kType = "independent_folded";
  FoldedConvolution folded;
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const {
    absl::StatusOr<LayerSpec> spec = folded.Specify(context);
    spec->traits.independent_images = true;
    return spec;
  }
  std::string Parameters() const { return folded.Parameters(); }
  friend bool operator==(const IndependentFolded&, const IndependentFolded&) = default;
};

}  // namespace

TEST_CASE("parts are of as few images as the number of parts needs, and the last has the rest") {
  CHECK(DivideBatch(10, 1) == PartSizes{.count = 1, .images = 10, .last = 10});
  CHECK(DivideBatch(10, 3) == PartSizes{.count = 3, .images = 4, .last = 2});
  CHECK(DivideBatch(10, 4) == PartSizes{.count = 4, .images = 3, .last = 1});
  CHECK(DivideBatch(10, 6) == PartSizes{.count = 5, .images = 2, .last = 2});
  CHECK(DivideBatch(250, 10) == PartSizes{.count = 10, .images = 25, .last = 25});
  for (int64_t batch = 1; batch <= 60; ++batch) {
    for (int64_t asked = 1; asked <= batch; ++asked) {
      CAPTURE(batch);
      CAPTURE(asked);
      const PartSizes sizes = DivideBatch(batch, asked);
      int64_t images = 0;
      for (int64_t i = 0; i < sizes.count; ++i) {
        const SubBatch part = sizes.Part(i);
        CHECK(part.first == images);
        CHECK((i + 1 == sizes.count || part.images == sizes.images));
        images += part.images;
      }
      CHECK(images == batch);
      CHECK((1 <= sizes.last && sizes.last <= sizes.images));
      CHECK(sizes.count <= asked);
      if (sizes.images > 1) CHECK((sizes.images - 1) * asked < batch);  // smaller parts do not do
      if (batch % asked == 0) CHECK(sizes.images * asked == batch);
      CHECK(DivideBatch(batch, sizes.count) == sizes);
    }
  }
}

TEST_CASE("two sub-batches: later gradients and metrics are added, parameters updated once") {
  const Program program = BuildProgram(TinyNet(), {.sub_batches = 2}).value();
  CHECK(StepsText(program) == R"(
conv[1/2] forward: reads input[1/2] conv.weight writes conv[1/2]
relu[1/2] forward: reads conv[1/2] writes relu[1/2]
drop[1/2] forward: reads relu[1/2] iteration writes drop[1/2]
fc[1/2] forward: reads drop[1/2] fc.weight fc.bias writes fc[1/2]
loss[1/2] forward: reads fc[1/2] labels[1/2] writes loss[1/2] loss.metrics
loss[1/2] backward_data: reads loss[1/2] labels[1/2] writes fc.grad[1/2]
fc[1/2] backward_params: reads drop[1/2] fc.grad[1/2] writes fc.weight.grad fc.bias.grad
fc[1/2] backward_data: reads fc.grad[1/2] fc.weight writes drop.grad[1/2]
drop[1/2] backward_data: reads drop.grad[1/2] iteration writes relu.grad[1/2]
relu[1/2] backward_data: reads relu[1/2] relu.grad[1/2] writes conv.grad[1/2]
conv[1/2] backward_params: reads input[1/2] conv.grad[1/2] writes conv.weight.grad
conv[2/2] forward: reads input[2/2] conv.weight writes conv[2/2]
relu[2/2] forward: reads conv[2/2] writes relu[2/2]
drop[2/2] forward: reads relu[2/2] iteration writes drop[2/2]
fc[2/2] forward: reads drop[2/2] fc.weight fc.bias writes fc[2/2]
loss[2/2] forward: reads fc[2/2] labels[2/2] writes loss[2/2]
    adds to loss.metrics
loss[2/2] backward_data: reads loss[2/2] labels[2/2] writes fc.grad[2/2]
fc[2/2] backward_params: reads drop[2/2] fc.grad[2/2]
    adds to fc.weight.grad fc.bias.grad
fc[2/2] backward_data: reads fc.grad[2/2] fc.weight writes drop.grad[2/2]
fc update: reads iteration fc.weight.grad fc.bias.grad
    adds to fc.weight fc.weight.momentum fc.bias fc.bias.momentum
drop[2/2] backward_data: reads drop.grad[2/2] iteration writes relu.grad[2/2]
relu[2/2] backward_data: reads relu[2/2] relu.grad[2/2] writes conv.grad[2/2]
conv[2/2] backward_params: reads input[2/2] conv.grad[2/2]
    adds to conv.weight.grad
conv update: reads iteration conv.weight.grad
    adds to conv.weight conv.weight.momentum
)");
  REQUIRE(program.feeds.size() == 2);
  REQUIRE(program.feeds[0].parts.size() == 2);
  CHECK(program.tensor(program.feeds[0].parts[1]).name == "input[2/2]");
  CHECK(program.tensor(program.feeds[0].parts[1]).spec.shape == Shape{2, 1, 8, 8});
  CHECK(program.tensor(program.feeds[1].parts[1]).spec.shape == Shape{2});
  CHECK(program.SpecOf(program.feeds[0]).shape == Shape{4, 1, 8, 8});
  CHECK(program.net.batch == 4);
}

TEST_CASE("kernels see the signatures of a batch of one part's images") {
  const Program whole = BuildProgram(TinyNet(), {}).value();
  const Program split = BuildProgram(TinyNet(), {.sub_batches = 2}).value();
  const auto of_part = [&](const std::string& layer, int part, const std::string& phase) {
    return split.Signature(StepCalled(split, layer + "[" + std::to_string(part) + "/2] " + phase));
  };
  for (const char* layer : {"conv", "relu", "fc"}) {
    const StepSignature expected =
        WithBatch(whole.Signature(StepCalled(whole, std::string(layer) + " forward")), 2);
    CHECK(of_part(layer, 1, "forward") == expected);
    CHECK(of_part(layer, 2, "forward") == expected);
  }
  // Gradients to which a kernel cannot add go to scratch space first, so it is the same kernel.
  CHECK(of_part("conv", 1, "backward_params") == of_part("conv", 2, "backward_params"));
  const Step& second = StepCalled(split, "conv[2/2] backward_params");
  CHECK(split.AccumulationScratchBytes(second) == kScratchAlignment);  // 18 weights
  CHECK(split.AccumulationScratchBytes(StepCalled(split, "conv[1/2] backward_params")) == 0);

  CHECK(of_part("drop", 1, "forward").part == BatchPart{0, 4});
  CHECK(of_part("drop", 2, "backward_data").part == BatchPart{2, 4});
  CHECK(of_part("drop", 1, "forward").layer_seed == of_part("drop", 2, "forward").layer_seed);
  CHECK(of_part("loss", 2, "backward_data").part.of == 4);
  CHECK(of_part("loss", 2, "forward").Accumulates({Slot::kState, 0}));
}

TEST_CASE("a shorter last part has kernels and tensors of its own, and its place in the batch") {
  const Program whole = BuildProgram(TinyNet(DType::kFp32, 5), {}).value();
  const Program split = BuildProgram(TinyNet(DType::kFp32, 5), {.sub_batches = 3}).value();
  CHECK(split.options.sub_batches == 3);
  REQUIRE(split.feeds[0].parts.size() == 3);
  for (const int i : {0, 1, 2}) {
    CAPTURE(i);
    const int64_t images = i == 2 ? 1 : 2;
    const std::string part = "[" + std::to_string(i + 1) + "/3] ";
    const auto index = static_cast<size_t>(i);
    CHECK(split.tensor(split.feeds[0].parts[index]).spec.shape == Shape{images, 1, 8, 8});
    CHECK(split.tensor(split.feeds[1].parts[index]).spec.shape == Shape{images});
    CHECK(split.tensor(split.MainLoss()->predictions.parts[index]).spec.shape ==
          Shape{images, 4, 1, 1});
    CHECK(split.Signature(StepCalled(split, "conv" + part + "forward")) ==
          WithBatch(whole.Signature(StepCalled(whole, "conv forward")), images));
    CHECK(split.Signature(StepCalled(split, "fc" + part + "backward_params")).operands.size() == 4);
    CHECK(split.Signature(StepCalled(split, "drop" + part + "backward_data")).part ==
          BatchPart{2 * i, 5});
    CHECK(split.Signature(StepCalled(split, "loss" + part + "forward")).part ==
          BatchPart{2 * i, 5});
    CHECK(split.layers[StepCalled(split, "fc" + part + "forward").layer.index()].sub_batch ==
          SubBatch{i, 3, 2 * i, images});
  }
  // Two parts of two images suffice for four, so the third is not needed.
  CHECK(BuildProgram(TinyNet(), {.sub_batches = 3}).value() ==
        BuildProgram(TinyNet(), {.sub_batches = 2}).value());
}

TEST_CASE("persistent tensors have the same ids with and without sub-batches") {
  const auto persistent = [](const ProgramOptions& options) {
    std::vector<Tensor> tensors = BuildProgram(TinyNet(DType::kBf16), options)->tensors;
    std::erase_if(tensors, [](const Tensor& tensor) { return !IsPersistent(tensor.role); });
    return tensors;
  };
  CHECK(persistent({.sub_batches = 4}) == persistent({}));
  CHECK(persistent({.mode = Mode::kInference, .sub_batches = 4}) == persistent({}));
}

TEST_CASE("a scaled loss is checked and updated after the last sub-batch") {
  const Program program = BuildProgram(TinyNet(DType::kFp16), {.sub_batches = 2}).value();
  std::vector<std::string> optimizer;
  for (const Step& step : program.steps) {
    if (!IsOfLayer(step.phase)) optimizer.push_back(program.StepName(step));
  }
  CHECK(optimizer == std::vector<std::string>{"fc check_gradients", "conv check_gradients",
                                              "fc update", "conv update", "loss update_scale"});
}

TEST_CASE("inference in sub-batches has predictions for each of them") {
  const Program program =
      BuildProgram(TinyNet(), {.mode = Mode::kInference, .sub_batches = 4}).value();
  const std::vector<TensorId>& predictions = program.MainLoss()->predictions.parts;
  REQUIRE(predictions.size() == 4);
  CHECK(program.tensor(predictions[3]).name == "loss[4/4]");
}

TEST_CASE("what cannot be run in sub-batches is refused, naming the layer") {
  CHECK(Refusal(TinyNet(), {.sub_batches = 5}) ==
        "tiny: a batch of 4 cannot be run in 5 sub-batches, because each has at least one image");
  CHECK(Refusal(TinyNet(), {.sub_batches = 0}).find("cannot be run in 0") != std::string::npos);
  CHECK(Refusal(TinyNet(), {.accounting = Accounting::kPaper, .sub_batches = 2}) ==
        "the paper's accounting knows no sub-batches");

  const auto with = [](const char* name, const Layer& layer, const Layer& loss) {
    Graph net({.name = "own", .batch = 4});
    std::string x = net.Add(name, layer, {net.Input({2, 4, 4})});
    net.Loss(net.Add("fc", FullyConnected{.out_features = 4}, {x}), loss);
    return net;
  };
  const std::string couples = " cannot be run in 2 sub-batches: it couples the images of a batch";
  const Graph normalised = with("bn1", BatchNorm{}, SoftmaxCrossEntropy{});
  CHECK(Refusal(normalised, {.sub_batches = 2}) ==
        "layer 'bn1'" + couples +
            ", unless its statistics are to be those of each part (--batch-norm-in-parts)");
  CHECK(Refusal(with("most", BatchMaximum{}, SoftmaxCrossEntropy{}), {.sub_batches = 2}) ==
        "layer 'most'" + couples);
  CHECK(Refusal(with("relu", Relu{}, ForgetfulLoss{}), {.sub_batches = 2}) ==
        "layer 'loss' cannot be run in 2 sub-batches: it writes its state metrics and cannot add "
        "to it");
  // In inference a batch norm does not couple images.
  CHECK(BuildProgram(normalised, {.mode = Mode::kInference, .sub_batches = 2}).ok());
}

TEST_CASE("one sub-batch is the whole batch") {
  const ResolvedGraph graph = Resolve(TinyNet(), Mode::kTraining).value();
  CHECK(BuildProgram(TinyNet(), {.sub_batches = 1}).value() == BuildProgram(TinyNet(), {}).value());
  CHECK(InSubBatches(graph, {})->each.layers[0].spec.output.shape.n() == 4);
  CHECK(InSubBatches(graph, {.sub_batches = 4})->each.layers[0].spec.output.shape.n() == 1);
  CHECK(NameInSubBatch("conv1", {}) == "conv1");
  CHECK(NameInSubBatch("conv1", {.index = 1, .count = 4}) == "conv1[2/4]");
}

TEST_CASE("fused layers are run in sub-batches like others") {
  ResolvedGraph graph = Resolve(TinyNet(), Mode::kTraining).value();
  graph = Fuse(std::move(graph), Mode::kTraining, GpuRules());
  const Program program = BuildProgram(std::move(graph), {.sub_batches = 2}).value();
  CHECK(program.StepName(program.steps.front()) == "conv[1/2] forward");
  CHECK(program.StepType(program.steps.front()) == "fused_convolution");
}

TEST_CASE("batch norms of parts, if asked for: running statistics are updated in each part") {
  const Graph net = NormalisedNet(5);
  const ProgramOptions options = {.sub_batches = 2, .batch_norm_in_parts = true};
  const Program program = BuildProgram(net, options).value();
  CHECK(program.options.batch_norm_in_parts);
  for (const int64_t part : {1, 2}) {
    const Step& step = StepCalled(program, "bn[" + std::to_string(part) + "/2] forward");
    REQUIRE(step.accumulates.size() == 2);
    CHECK(program.tensor(step.accumulates[0].tensor).name == "bn.running_mean");
    CHECK(program.tensor(step.accumulates[1].tensor).name == "bn.running_var");
    const StepSignature signature = program.Signature(step);
    CHECK(signature.Spec({Slot::kInput, 0}).shape.n() == (part == 1 ? 3 : 2));
  }
  // It says nothing where it changes nothing.
  CHECK(!BuildProgram(net, {.batch_norm_in_parts = true})->options.batch_norm_in_parts);
  CHECK(!BuildProgram(TinyNet(), options)->options.batch_norm_in_parts);
  ProgramOptions inference = options;
  inference.mode = Mode::kInference;
  CHECK(!BuildProgram(net, inference)->options.batch_norm_in_parts);
}

TEST_CASE("a part with one value per channel has no variance") {
  // A batch norm of vectors, so an image has one value per channel: 5 images are 2 + 2 + 1.
  const ProgramOptions options = {.sub_batches = 3, .batch_norm_in_parts = true};
  CHECK(Refusal(NormalisedNet(5, /*of_vectors=*/true), options) ==
        "layer 'bn' cannot be run in 3 sub-batches: a part of 1 image has 1 value per channel, "
        "which has no variance");
  CHECK(BuildProgram(NormalisedNet(6, /*of_vectors=*/true), options).ok());
  CHECK(BuildProgram(NormalisedNet(5), options).ok());
}

TEST_CASE("batch norms have the statistics of all ranks or of each part, not both") {
  const ProgramOptions options = {.sub_batches = 2,
                                  .batch_norm_in_parts = true,
                                  .share = {.rank = 0, .ranks = 2, .all_images = 10},
                                  .sync_batch_norm = true};
  const DeviceDescription h200 = DescribedDevice("h200").value();
  CHECK(Lower(NormalisedNet(5), options, h200).status().message() ==
        "normalised: batch norms cannot have the statistics of all ranks (--sync-batch-norm) and "
        "those of each part (--batch-norm-in-parts)");
  ProgramOptions own = options;
  own.sync_batch_norm = false;
  CHECK(Lower(NormalisedNet(5), own, h200)->options.batch_norm_in_parts);
}

TEST_CASE("a layer whose backward reads gradients of its parameters is not run in parts") {
  const auto net_with = [](const std::vector<Layer>& layers) {
    Graph net(
        {.name = "folded", .batch = 8, .dtype = DType::kBf16, .layout = Layout::kChannelsLast});
    std::string x = net.Input({8, 16, 16});
    for (const Layer& layer : layers) x = net.Add(std::string(layer.type()), layer, {x});
    net.Loss(net.Add("fc", FullyConnected{.out_features = 4}, {x}), SoftmaxCrossEntropy{});
    return net;
  };
  const ProgramOptions in_parts = {.sub_batches = 2, .batch_norm_in_parts = true};
  const FoldedConvolution folded = {.out_channels = 32};
  CHECK(Refusal(net_with({folded}), in_parts) ==
        "layer 'folded_convolution' cannot be run in 2 sub-batches: it couples the images of a "
        "batch");
  CHECK(Refusal(net_with({IndependentFolded{folded}}), in_parts) ==
        "layer 'independent_folded' cannot be run in 2 sub-batches: it reads gradients of its "
        "parameters, "
        "which are sums over parts");
  // So convolutions are not folded where batch norms are of parts.
  const DeviceDescription h200 = DescribedDevice("h200").value();
  const Graph net = net_with({Convolution{.out_channels = 32, .bias = false}, BatchNorm{}});
  const auto has_folded = [](const Program& program) {
    return std::any_of(program.layers.begin(), program.layers.end(), [](const auto& layer) {
      return layer.layer.template As<FoldedConvolution>() != nullptr;
    });
  };
  CHECK(has_folded(Lower(net, {}, h200).value()));
  CHECK(has_folded(Lower(net, {.batch_norm_in_parts = true}, h200).value()));
  const Program parts = Lower(net, in_parts, h200).value();
  CHECK(!has_folded(parts));
  CHECK(parts.options.batch_norm_in_parts);
}

}  // namespace neap

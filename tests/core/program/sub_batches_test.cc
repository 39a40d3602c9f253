#include "neap/core/program/sub_batches.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "neap/core/program/fuse.h"
#include "neap/core/program/program.h"
#include "neap/core/step/signature_text.h"
#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/convolution.h"
#include "neap/layers/dropout.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/softmax_cross_entropy.h"

namespace neap {
namespace {

Graph TinyNet(DType dtype = DType::kFp32) {
  Graph net({.name = "tiny", .batch = 4, .dtype = dtype});
  std::string x = net.Input({1, 8, 8});
  x = net.Add("conv", Convolution{.out_channels = 2, .kernel = 3, .bias = false}, {x});
  x = net.Add("relu", Relu{}, {x});
  x = net.Add("drop", Dropout{}, {x});
  x = net.Add("fc", FullyConnected{.out_features = 4}, {x});
  net.Loss(x, SoftmaxCrossEntropy{});
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

}  // namespace

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
  REQUIRE(program.images.size() == 2);
  CHECK(program.tensor(program.images[1]).name == "input[2/2]");
  CHECK(program.tensor(program.images[1]).spec.shape == Shape{2, 1, 8, 8});
  CHECK(program.tensor(program.labels[1]).spec.shape == Shape{2});
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
  REQUIRE(program.predictions.size() == 4);
  CHECK(program.tensor(program.predictions[3]).name == "loss[4/4]");
}

TEST_CASE("what cannot be run in sub-batches is refused, naming the layer") {
  CHECK(Refusal(TinyNet(), {.sub_batches = 3}) ==
        "tiny: a batch of 4 cannot be run in 3 sub-batches, because their number must divide it");
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
  CHECK(Refusal(normalised, {.sub_batches = 2}) == "layer 'bn1'" + couples);
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
  CHECK(InSubBatches(graph, Mode::kTraining, 1)->layers[0].spec.output.shape.n() == 4);
  CHECK(InSubBatches(graph, Mode::kTraining, 4)->layers[0].spec.output.shape.n() == 1);
  CHECK(NameInSubBatch("conv1", {}) == "conv1");
  CHECK(NameInSubBatch("conv1", {.index = 1, .count = 4}) == "conv1[2/4]");
}

TEST_CASE("fused layers are run in sub-batches like others") {
  ResolvedGraph graph = Resolve(TinyNet(), Mode::kTraining).value();
  graph = Fuse(std::move(graph), Mode::kTraining, {.convolutions = true});
  const Program program = BuildProgram(std::move(graph), {.sub_batches = 2}).value();
  CHECK(program.StepName(program.steps.front()) == "conv[1/2] forward");
  CHECK(program.StepType(program.steps.front()) == "fused_convolution");
}

}  // namespace neap

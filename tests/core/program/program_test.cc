#include "neap/core/program/program.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/program/fuse.h"
#include "neap/core/program/results.h"
#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/convolution.h"
#include "neap/layers/dropout.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/fusion/rules.h"
#include "neap/layers/join.h"
#include "neap/layers/pooling.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "tests/random_graph.h"

namespace neap {
namespace {

std::string List(const Program& program, const char* label, const std::vector<Use>& uses) {
  if (uses.empty()) return "";
  std::string text = std::string(" ") + label;
  for (const Use& use : uses) {
    text += " " + program.tensor(use.tensor).name +
            (use.operand.slot == Slot::kAddend ? "(addend)" : "");
  }
  return text;
}

// Breaks a line of more than 100 columns at spaces; further lines are indented.
std::string Wrapped(std::string line) {
  for (size_t begin = 0; line.size() - begin > 100;) {
    const size_t space = line.rfind(' ', begin + 100);
    line.replace(space, 1, "\n    ");
    begin = space + 1;
  }
  return line;
}

// One line per step, wrapped.
std::string Text(const Program& program) {
  std::string text = "\n";
  for (const Step& step : program.steps) {
    std::string line = program.StepName(step) + ":" + List(program, "reads", step.reads) +
                       List(program, "writes", step.writes) +
                       List(program, "accumulates", step.accumulates);
    for (const auto& [written, read] : step.in_place) {
      line += " [" + program.tensor(written).name + " over " + program.tensor(read).name + "]";
    }
    text += Wrapped(std::move(line)) + "\n";
  }
  return text;
}

TEST_CASE("equal layers have equal signatures, unless they draw random numbers") {
  Graph net({.name = "pairs", .batch = 2});
  std::string x = net.Input({1, 8, 8});
  for (const char* i : {"1", "2"}) {
    x = net.Add(std::string("relu") + i, Relu{}, {x});
    x = net.Add(std::string("drop") + i, Dropout{}, {x});
  }
  net.Loss(net.Add("fc", FullyConnected{.out_features = 10}, {x}), SoftmaxCrossEntropy{});
  const Program program = BuildProgram(net, {}).value();
  const auto forward = [&](const std::string& layer) {
    const auto step = std::find_if(program.steps.begin(), program.steps.end(), [&](const Step& s) {
      return program.StepName(s) == layer + " forward";
    });
    REQUIRE(step != program.steps.end());
    return program.Signature(*step);
  };
  CHECK(forward("relu1") == forward("relu2"));
  CHECK(forward("drop1") != forward("drop2"));
}

TEST_CASE("the steps of a small convolutional network, with exactly what each touches") {
  Graph net({.name = "small", .batch = 2});
  std::string x = net.Input({1, 8, 8});
  x = net.Add("conv", Convolution{.out_channels = 4, .kernel = 3}, {x});
  x = net.Add("relu", Relu{}, {x});
  x = net.Add("pool", MaxPool{}, {x});
  x = net.Add("fc", FullyConnected{.out_features = 10, .bias = false}, {x});
  net.Loss(x, SoftmaxCrossEntropy{});
  CHECK(Text(BuildProgram(net, {}).value()) == R"(
conv forward: reads input conv.weight conv.bias writes conv
relu forward: reads conv writes relu [relu over conv]
pool forward: reads relu writes pool pool.index
fc forward: reads pool fc.weight writes fc
loss forward: reads fc labels writes loss loss.metrics [loss over fc]
loss backward_data: reads loss labels writes fc.grad [fc.grad over loss]
fc backward_params: reads pool fc.grad writes fc.weight.grad
fc backward_data: reads fc.grad fc.weight writes pool.grad
fc update: reads iteration fc.weight.grad accumulates fc.weight fc.weight.momentum
pool backward_data: reads pool.grad pool.index writes relu.grad
relu backward_data: reads relu relu.grad writes conv.grad [conv.grad over relu.grad]
conv backward_params: reads input conv.grad writes conv.weight.grad conv.bias.grad
conv update: reads iteration conv.weight.grad conv.bias.grad accumulates conv.weight
    conv.weight.momentum conv.bias conv.bias.momentum
)");
}

TEST_CASE(
    "a residual block: the sum's gradient is its inputs' own, and a new contribution makes a new "
    "tensor") {
  Graph net({.name = "residual", .batch = 2});
  std::string x = net.Input({4, 4, 4});
  x = net.Add("stem", Convolution{.out_channels = 4, .bias = false}, {x});
  std::string y = net.Add("conv", Convolution{.out_channels = 4, .bias = false}, {x});
  y = net.Add("bn", BatchNorm{}, {y});
  x = net.Add("add", Add{}, {y, x});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 10, .bias = false}, {x}),
           SoftmaxCrossEntropy{});
  CHECK(Text(BuildProgram(net, {.optimizer = {.momentum = 0}}).value()) == R"(
stem forward: reads input stem.weight writes stem
conv forward: reads stem conv.weight writes conv
bn forward: reads conv bn.weight bn.bias writes bn bn.mean bn.invstd accumulates bn.running_mean
    bn.running_var [bn over conv]
add forward: reads bn stem writes add [add over bn]
fc forward: reads add fc.weight writes fc
loss forward: reads fc labels writes loss loss.metrics [loss over fc]
loss backward_data: reads loss labels writes fc.grad [fc.grad over loss]
fc backward_params: reads add fc.grad writes fc.weight.grad
fc backward_data: reads fc.grad fc.weight writes add.grad
fc update: reads iteration fc.weight.grad accumulates fc.weight
bn backward_data: reads conv add.grad bn.weight bn.mean bn.invstd writes conv.grad bn.weight.grad
    bn.bias.grad [conv.grad over add.grad]
bn update: reads iteration bn.weight.grad bn.bias.grad accumulates bn.weight bn.bias
conv backward_params: reads stem conv.grad writes conv.weight.grad
conv backward_data: reads conv.grad conv.weight add.grad(addend) writes stem.grad
conv update: reads iteration conv.weight.grad accumulates conv.weight
stem backward_params: reads input stem.grad writes stem.weight.grad
stem update: reads iteration stem.weight.grad accumulates stem.weight
)");
}

// Two residual blocks, and as many more readers of the first one's result.
Program ResidualProgram(int more_readers) {
  Graph net({.name = "residual", .batch = 2});
  const Convolution convolution = {.out_channels = 4, .kernel = 1, .bias = false};
  const auto block = [&](const std::string& name, const std::string& x) {
    const std::string conv = net.Add(name + ".conv", convolution, {x});
    const std::string sum = net.Add(name + ".add", Add{}, {net.Add(name, BatchNorm{}, {conv}), x});
    return net.Add(name + ".relu", Relu{}, {sum});
  };
  const std::string first = block("bn1", net.Add("stem", convolution, {net.Input({4, 4, 4})}));
  std::string x = block("bn2", first);
  for (int i = 0; i < more_readers; ++i)
    x = net.Add(absl::StrCat("more", i), Add{},
                {x, net.Add(absl::StrCat("t", i), Tanh{}, {first})});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 4}, {x}), SoftmaxCrossEntropy{});
  return BuildProgram(Fuse(Resolve(net, Mode::kTraining).value(), Mode::kTraining, CpuRules()), {})
      .value();
}

TEST_CASE("backward of a sum's batch norm adds two gradients where it reads them") {
  for (int more_readers : {0, 1}) {
    const Program program = ResidualProgram(more_readers);
    std::string others;
    int additions = 0;  // to the gradient of the first block's result
    for (const Step& step : program.steps) {
      for (const Use& use : step.accumulates)
        additions += program.tensor(use.tensor).name == "bn1.grad" ? 1 : 0;
      for (const Use& use : step.reads) {
        if (use.operand == Operand{Slot::kOutputGrad, 1})
          others += program.StepName(step) + " " + program.tensor(use.tensor).name;
      }
    }
    CHECK(others == (more_readers == 0 ? "bn1 backward_data bn1.other_grad" : ""));
    CHECK((additions == 0) == (more_readers == 0));
  }
}

TEST_CASE("a gradient that a layer only passes on is added where it is read, without a copy") {
  Graph net({.name = "passed", .batch = 2});
  const Convolution convolution = {.out_channels = 4, .kernel = 1, .bias = false};
  const std::string stem = net.Add("stem", convolution, {net.Input({4, 4, 4})});
  const std::string first = net.Add("t1", Tanh{}, {stem});
  const std::string norm = net.Add("bn", BatchNorm{}, {net.Add("conv", convolution, {stem})});
  const std::string sum = net.Add("sum", Add{}, {norm, stem});
  const std::string passing = net.Add("passing", Add{}, {sum, first});
  const std::string last = net.Add("last", Add{}, {passing, net.Add("t2", Tanh{}, {sum})});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 4}, {last}), SoftmaxCrossEntropy{});
  const Program program =
      BuildProgram(Fuse(Resolve(net, Mode::kTraining).value(), Mode::kTraining, CpuRules()), {})
          .value();
  std::string gradients;
  for (const Step& step : program.steps) {
    CHECK(program.StepName(step) != "passing backward_data");
    for (const Use& use : step.reads) {
      if (program.StepName(step) == "bn backward_data" && use.operand.slot == Slot::kOutputGrad)
        gradients += program.tensor(use.tensor).name + " ";
    }
  }
  CHECK(gradients == "bn.grad last.grad ");
}

TEST_CASE("a tensor with three readers gets one gradient, written once and accumulated twice") {
  Graph net({.name = "fan", .batch = 2});
  const std::string x =
      net.Add("stem", Convolution{.out_channels = 2, .bias = false}, {net.Input({1, 4, 4})});
  const std::string a = net.Add("a", Relu{}, {x});
  const std::string b = net.Add("b", Sigmoid{}, {x});
  const std::string c = net.Add("c", Convolution{.out_channels = 2, .bias = false}, {x});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 3}, {net.Add("cat", Concat{}, {a, b, c})}),
           SoftmaxCrossEntropy{});
  const Program program = BuildProgram(net, {}).value();
  int writes = 0;
  int accumulates = 0;
  for (const Step& step : program.steps) {
    for (const Use& use : step.writes)
      writes += program.tensor(use.tensor).name == "stem.grad" ? 1 : 0;
    for (const Use& use : step.accumulates)
      accumulates += program.tensor(use.tensor).name == "stem.grad" ? 1 : 0;
    // Relu's kernel overwrites, so it needs scratch space for gradients that are added afterwards.
    if (program.StepName(step) == "a backward_data") {
      CHECK(program.AccumulationScratchBytes(step) == 2 * 2 * 4 * 4 * 4);
      CHECK(program.Signature(step).Find({Slot::kInputGrad, 0}).has_value());
      CHECK(!program.Signature(step).Accumulates({Slot::kInputGrad, 0}));
    }
  }
  CHECK(writes == 1);
  CHECK(accumulates == 2);
}

TEST_CASE("x + x has the gradient dy + dy") {
  Graph net({.name = "twice", .batch = 2});
  const std::string x =
      net.Add("stem", Convolution{.out_channels = 2, .bias = false}, {net.Input({1, 4, 4})});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 3, .bias = false},
                   {net.Add("sum", Add{}, {x, x})}),
           SoftmaxCrossEntropy{});
  const std::string text = Text(BuildProgram(net, {}).value());
  CHECK(text.find("sum backward_data: reads sum.grad sum.grad(addend) writes stem.grad\n") !=
        std::string::npos);
}

TEST_CASE("training and inference have the same persistent tensors under the same ids") {
  for (uint32_t seed = 1; seed <= 50; ++seed) {
    CAPTURE(seed);
    const Graph graph = testing::RandomGraph(
        seed, {.image_norms = seed % 3 == 1, .attention = seed % 5 == 2, .ports = seed % 2 == 1});
    const Program training = BuildProgram(graph, {.mode = Mode::kTraining}).value();
    const Program inference = BuildProgram(graph, {.mode = Mode::kInference}).value();
    size_t persistent = 0;
    for (const Tensor& tensor : training.tensors) {
      if (!IsPersistent(tensor.role)) continue;
      REQUIRE(tensor.id.index() == persistent++);
      const Tensor& other = inference.tensor(tensor.id);
      REQUIRE(other.name == tensor.name);
      REQUIRE(other.role == tensor.role);
      REQUIRE(other.spec == tensor.spec);
    }
    CHECK(!IsPersistent(inference.tensors[persistent].role));
    for (const Step& step : inference.steps) REQUIRE(step.phase == Phase::kForward);
  }
}

// Holds for every program: nothing is read or added to before it is written, and nothing is written
// twice.
TEST_CASE("every tensor is written once, before anything reads it") {
  for (uint32_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    const Program program =
        BuildProgram(testing::RandomGraph(seed, {.ports = seed % 2 == 1}), {}).value();
    std::vector<bool> defined;
    for (const Tensor& tensor : program.tensors) defined.push_back(IsGiven(tensor.role));
    for (const Step& step : program.steps) {
      for (const Use& use : step.reads) REQUIRE(defined[use.tensor.index()]);
      for (const Use& use : step.accumulates) REQUIRE(defined[use.tensor.index()]);
      for (const Use& use : step.writes) {
        if (IsPersistent(program.tensor(use.tensor).role)) continue;
        REQUIRE(!defined[use.tensor.index()]);
        defined[use.tensor.index()] = true;
      }
    }
  }
}

TEST_CASE("every parameter is updated once, from a gradient that was written") {
  const Program program = BuildProgram(testing::RandomGraph(3), {}).value();
  std::vector<int> updates(program.tensors.size(), 0);
  for (const Step& step : program.steps) {
    if (step.phase != Phase::kUpdate) continue;
    for (const Use& use : step.accumulates) ++updates[use.tensor.index()];
  }
  for (const Tensor& tensor : program.tensors) {
    const bool learned = tensor.role == Role::kParam || tensor.role == Role::kOptimizer;
    CHECK(updates[tensor.id.index()] == (learned ? 1 : 0));
  }
}

TEST_CASE("a rerun of batch norm reads what it saved and does not change the running statistics") {
  Graph net({.name = "bn", .batch = 2});
  const std::string x = net.Add("bn", BatchNorm{}, {net.Input({2, 4, 4})});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 3}, {x}), SoftmaxCrossEntropy{});
  const Program program = BuildProgram(net, {}).value();
  const StepSignature rerun = program.Signature(program.steps[0], /*rerun=*/true);
  CHECK(!rerun.Has({Slot::kState, 0}));
  REQUIRE(rerun.Has({Slot::kSaved, 0}));
  CHECK(rerun.operands[*rerun.Find({Slot::kSaved, 0})].access == Access::kRead);
  CHECK(rerun.operands[*rerun.Find({Slot::kOutput, 0})].access == Access::kWrite);
}

TEST_CASE("nothing is written in place over results, however many there are") {
  constexpr int kCount = 3000;
  Graph net({.name = "net", .batch = 2});
  std::string x = net.Input({2, 1, 1});
  for (int i = 0; i < kCount; ++i) {
    x = net.Add(absl::StrCat("relu", i), Relu{}, {x});
    if (i % 3 > 0) net.Output(x);
  }
  net.Loss(net.Add("fc", FullyConnected{.out_features = 2}, {x}), SoftmaxCrossEntropy{});
  for (const Mode mode : {Mode::kTraining, Mode::kInference}) {
    const Program program = BuildProgram(net, {.mode = mode}).value();
    const int of_loss = mode == Mode::kInference ? 2 : 0;  // what it reads, and its predictions
    CHECK(std::ssize(KeptResults(program)) == kCount * 2 / 3 + of_loss);
    int over = 0;
    for (const Step& step : program.steps) {
      if (step.phase != Phase::kForward || program.StepType(step) != "relu") continue;
      const int i = step.id.value;
      REQUIRE(program.StepName(step) == absl::StrCat("relu", i, " forward"));
      const bool is_over_inner = i > 0 && (i - 1) % 3 == 0;
      REQUIRE(step.in_place.empty() == !(is_over_inner || i == 0));
      over += static_cast<int>(is_over_inner);
    }
    CHECK(over == kCount / 3);
  }
}

}  // namespace
}  // namespace neap

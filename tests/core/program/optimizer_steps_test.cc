#include "neap/core/program/builder/optimizer_steps.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "neap/core/program/program.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "tests/small_net.h"

namespace neap {
namespace {

using Names = std::vector<std::string>;

Program ProgramWith(const Optimizer& optimizer, ProgramOptions options = {},
                    DType dtype = DType::kFp32) {
  options.optimizer = optimizer;
  absl::StatusOr<Program> program =
      BuildProgram(SmallNet(Layout::kChannelsFirst, true, dtype), options);
  REQUIRE_MESSAGE(program.ok(), program.status().ToString());
  return *std::move(program);
}

// What the optimizer keeps of conv2.weight.
Names Kept(const Program& program) {
  Names names;
  for (const Tensor& tensor : program.tensors) {
    if (tensor.role == Role::kOptimizer && tensor.name.starts_with("conv2.weight"))
      names.push_back(tensor.name);
  }
  return names;
}

Names StepsOfOptimizer(const Program& program) {
  Names names;
  for (const Step& step : program.steps) {
    if (!IsOfLayer(step.phase))
      names.push_back(program.StepName(step) + " " + std::string(program.StepType(step)));
  }
  return names;
}

}  // namespace

TEST_CASE("an optimizer keeps what its rule needs, of a network that is trained") {
  constexpr auto kAdamW = Optimizer::Rule::kAdamW;
  CHECK(Kept(ProgramWith({})) == Names{"conv2.weight.momentum"});
  CHECK(Kept(ProgramWith({.momentum = 0})).empty());
  CHECK(Kept(ProgramWith({.rule = kAdamW})) ==
        Names{"conv2.weight.exp_avg", "conv2.weight.exp_avg_sq"});
  CHECK(Kept(ProgramWith({.rule = kAdamW, .momentum = 0}, {}, DType::kBf16)).size() == 2);
  CHECK(Kept(ProgramWith({.momentum = 0, .average_decay = 0.5F})) == Names{"conv2.weight.average"});
  CHECK(Kept(ProgramWith({.rule = kAdamW, .average_decay = 0.5F},
                         {.mode = Mode::kInference, .trainable = false}))
            .empty());
}

TEST_CASE("an average begins with the master of a 16-bit parameter, and has its shape") {
  for (const DType dtype : {DType::kFp32, DType::kBf16}) {
    const Program program = ProgramWith({.average_decay = 0.5F}, {}, dtype);
    const auto average =
        std::find_if(program.tensors.begin(), program.tensors.end(),
                     [](const Tensor& tensor) { return tensor.name == "conv2.weight.average"; });
    REQUIRE(average != program.tensors.end());
    const Tensor& original = program.Original(*average);
    CHECK(original.name == "conv2.weight");
    CHECK(original.spec == average->spec);
    CHECK(!average->copy_of.has_value());
  }
}

TEST_CASE("with clipped gradients, every update waits for the norm of all of them") {
  const Program program = ProgramWith({.clip_norm = 1});
  CHECK(StepsOfOptimizer(program) == Names{"fc check_gradients gradient_norm", "fc update sgd",
                                           "conv2 update sgd", "bn1 update sgd",
                                           "conv1 update sgd"});
  for (const Step& step : program.steps) {
    if (step.phase == Phase::kUpdate) CHECK(program.Signature(step).Has({Slot::kGradientNorm, 0}));
    if (step.phase != Phase::kCheckGradients) continue;
    Names names;
    for (const Use& use : step.reads) names.push_back(program.tensor(use.tensor).name);
    CHECK(names == Names{"bn1.bias.grad", "bn1.weight.grad", "conv1.weight.grad", "conv2.bias.grad",
                         "conv2.weight.grad", "fc.bias.grad", "fc.weight.grad"});
  }
}

TEST_CASE("the first check of many gradients writes the norm, and the others add to it") {
  Graph net({.name = "deep", .batch = 2});
  std::string x = net.Input({4, 4, 4});
  for (int i = 0; i < 50; ++i) {
    x = net.Add("conv" + std::to_string(i),
                Convolution{.out_channels = 4, .kernel = 3, .padding = 1}, {x});
  }
  net.Loss(net.Add("fc", FullyConnected{.out_features = 4}, {x}), SoftmaxCrossEntropy{});
  const absl::StatusOr<Program> program = BuildProgram(net, {.optimizer = {.clip_norm = 1}});
  REQUIRE_MESSAGE(program.ok(), program.status().ToString());
  std::vector<const Step*> checks;
  for (const Step& step : program->steps) {
    if (step.phase == Phase::kCheckGradients) checks.push_back(&step);
  }
  REQUIRE(checks.size() == 2);
  const Use norm = {checks[0]->writes.at(0).tensor, {Slot::kGradientNorm, 0}};
  CHECK(checks[0]->writes == std::vector{norm});
  CHECK(checks[0]->accumulates.empty());
  CHECK(checks[1]->accumulates == std::vector{norm});
  CHECK(checks[1]->writes.empty());
  CHECK(checks[0]->reads.size() + checks[1]->reads.size() == 102);
}

TEST_CASE("with a scaled loss, the checks of clipped gradients also look for overflows") {
  const Program program = ProgramWith({.clip_norm = 1}, {}, DType::kFp16);
  const Names steps = StepsOfOptimizer(program);
  CHECK(steps.size() == 6);
  CHECK(steps.back() == "loss update_scale loss_scale");
  for (const Step& step : program.steps) {
    if (step.phase == Phase::kCheckGradients)
      CHECK(program.Signature(step).Has({Slot::kLossScale, 0}));
  }
}

TEST_CASE("a sharded optimizer refuses to clip and to average") {
  const ProgramOptions options = {
      .share = {.rank = 0, .ranks = 2, .first_image = 0, .all_images = 16},
      .shard = {.rank = 0, .ranks = 2}};
  for (const Optimizer& optimizer : {Optimizer{.clip_norm = 1}, Optimizer{.average_decay = 0.5F}}) {
    ProgramOptions own = options;
    own.optimizer = optimizer;
    const absl::StatusOr<Program> refused = BuildProgram(SmallNet(), own);
    CHECK(absl::IsInvalidArgument(refused.status()));
    CHECK(std::string(refused.status().message()).find("neither clip gradients") !=
          std::string::npos);
  }
  ProgramOptions own = options;
  own.optimizer = {.rule = Optimizer::Rule::kAdamW};
  CHECK(BuildProgram(SmallNet(), own).ok());
}

}  // namespace neap

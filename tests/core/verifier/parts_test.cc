// Plans that run a batch in parts: the verifier derives how many images each part has.
#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <utility>
#include <variant>

#include "neap/core/program/passes.h"
#include "neap/core/verifier/verifier.h"
#include "neap/layers/activation.h"
#include "neap/layers/catalog/default_catalog.h"
#include "neap/layers/convolution.h"
#include "neap/layers/devices/device_description.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/memory/planner.h"
#include "tests/core/verifier/verdict.h"

namespace neap {
namespace {

// 5 images in 2 + 2 + 1.
Program ProgramInParts(int64_t sub_batches = 3) {
  Graph net({.name = "parts", .batch = 5});
  std::string x = net.Input({3, 8, 8});
  x = net.Add("conv", Convolution{.out_channels = 4, .kernel = 3}, {x});
  x = net.Add("relu", Relu{}, {x});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 4}, {x}), SoftmaxCrossEntropy{});
  return Lower(net, {.sub_batches = sub_batches}, DescribedDevice("h200").value()).value();
}

Plan PlanInParts(const Program& program) {
  DefaultCatalog catalog;
  Plan plan = MakePlan(program, {}, DescribedDevice("h200").value(), catalog)->plan;
  // All steps as if they had one engine, which computes all images of the part.
  for (Action& action : plan.actions) {
    auto* const compute = std::get_if<ComputeAction>(&action);
    if (compute == nullptr || !compute->engines.empty()) continue;
    const Step& step = program.steps[compute->step.index()];
    compute->engines = {{"all", program.layers[step.layer.index()].sub_batch.images}};
  }
  return plan;
}

// The compute action of the step with this name.
ComputeAction& ComputeOf(const std::string& step, Plan& plan) {
  for (Action& action : plan.actions) {
    auto* const compute = std::get_if<ComputeAction>(&action);
    if (compute != nullptr && StepName(plan.steps[compute->step.index()]) == step) return *compute;
  }
  FAIL("there is no step ", step);
  return std::get<ComputeAction>(plan.actions.front());
}

}  // namespace

TEST_CASE("engines compute the images of their part, and those of the optimizer of the first") {
  const Program program = ProgramInParts();
  const Plan plan = PlanInParts(program);
  CHECK(plan.sub_batches == 3);
  CHECK(Verify(plan).message() == "");
  CHECK(MatchesProgram(plan, program).message() == "");
  for (const auto& of_step : {std::pair("conv[1/3] forward", 2),
                              {"conv[2/3] backward_params", 2},
                              {"fc[3/3] backward_data", 1},
                              {"loss[3/3] forward", 1},
                              {"conv update", 2}}) {
    const char* const step = of_step.first;
    const int images = of_step.second;
    CAPTURE(step);
    for (const int64_t batch : {1, 2, 3}) {
      Plan changed = plan;
      ComputeOf(step, changed).engines = {{"e", batch}};
      CHECK(FaultOf(Verify(changed)) == (batch == images ? "" : "bad-engines"));
    }
  }
}

TEST_CASE("parts that do not make up the batch are refused") {
  const Plan plan = PlanInParts(ProgramInParts());
  // 5 images are two parts of 3 + 2, and four parts of 2 would leave the last one empty.
  for (const int64_t count : {-1, 0, 4, 6})
    CHECK(FaultAfter(plan, [&](Plan& p) { p.sub_batches = count; }) == "bad-header");
  for (const int64_t count : {2, 5})
    CHECK(FaultAfter(plan, [&](Plan& p) { p.sub_batches = count; }) == "bad-step");
  CHECK(FaultAfter(plan, [](Plan& p) { p.batch = 6; }) == "bad-tensor");
  CHECK(FaultAfter(plan, [](Plan& p) { p.batch = 3; }) == "bad-tensor");
  CHECK(FaultAfter(plan, [](Plan& p) { p.batch = 2; }) == "bad-header");
}

TEST_CASE("steps of layers name their part, and inputs have its images") {
  const Plan plan = PlanInParts(ProgramInParts());
  for (const char* name : {"conv", "conv[0/3]", "conv[4/3]", "conv[1/2]", "conv[ 1/3]",
                           "conv[01/3]", "conv[1/3", "]/["}) {
    CAPTURE(name);
    CHECK(FaultAfter(plan, [&](Plan& p) { p.steps[0].layer = name; }) == "bad-step");
  }
  const auto smaller = [&](const std::string& name) {
    return FaultAfter(plan, [&](Plan& p) {
      for (PlanTensor& tensor : p.tensors) {
        if (tensor.name != name) continue;
        auto dims = tensor.shape.dims();
        tensor.bytes = tensor.bytes / dims[0] * (3 - dims[0]);  // 1 image for 2, and 2 for 1
        dims[0] = 3 - dims[0];
        tensor.shape = Shape(dims);
      }
    });
  };
  for (const char* name : {"input[1/3]", "input[3/3]", "labels[2/3]", "labels[3/3]"}) {
    CAPTURE(name);
    CHECK(smaller(name) == "bad-tensor");
  }
}

TEST_CASE("a plan says whether its batch norms are of parts as its program does") {
  Plan plan = PlanInParts(ProgramInParts());
  plan.batch_norm_in_parts = true;
  CHECK(Verify(plan).ok());
  CHECK(MatchesProgram(plan, ProgramInParts()).message() ==
        "plan fault [wrong-program]: the plan: its batch norms have the statistics of each part, "
        "but not the program's");
  const Plan whole = PlanInParts(ProgramInParts(1));
  CHECK(FaultAfter(whole, [](Plan& p) { p.batch_norm_in_parts = true; }) == "bad-header");
}

}  // namespace neap

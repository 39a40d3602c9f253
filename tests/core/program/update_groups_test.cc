// Steps that update the parameters of several layers: which they are, what they touch, and that
// plans and trainings with them are right.
#include "neap/core/program/update_groups.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "neap/core/program/passes.h"
#include "neap/core/program/program.h"
#include "neap/core/verifier/verifier.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/convolution.h"
#include "neap/layers/devices/device_description.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/memory/create_session.h"
#include "neap/memory/planner.h"
#include "tests/own_memory_device.h"
#include "tests/random_graph.h"
#include "tests/small_training.h"

namespace neap {
namespace {

// In the order of backward, with the bytes of gradients: fc 1280, bn2 32, conv2 576, bn1 32,
// conv1 432.
Graph GroupedNet(DType dtype = DType::kFp32, int64_t image = 4) {
  Graph net({.name = "net", .batch = 2, .dtype = dtype, .fusion = false});
  std::string x = net.Input({3, image, image});
  for (const char* const n : {"1", "2"}) {
    x = net.Add(std::string("conv") + n,
                Convolution{.out_channels = 4, .kernel = 3, .padding = 1, .bias = false}, {x});
    x = net.Add(std::string("bn") + n, BatchNorm{}, {x});
  }
  x = net.Add("fc", FullyConnected{.out_features = 5, .bias = false}, {x});
  net.Loss(x, SoftmaxCrossEntropy{});
  return net;
}

Program Grouped(const Graph& graph, int64_t bytes) {
  absl::StatusOr<Program> program = BuildProgram(graph, {.update_group_bytes = bytes});
  REQUIRE_MESSAGE(program.ok(), program.status().ToString());
  return *std::move(program);
}

std::vector<const Step*> Updates(const Program& program) {
  std::vector<const Step*> updates;
  for (const Step& step : program.steps) {
    if (step.phase == Phase::kUpdate) updates.push_back(&step);
  }
  return updates;
}

std::vector<std::string> BackwardSteps(const Program& program) {
  std::vector<std::string> names;
  for (const Step& step : program.steps) {
    if (step.phase != Phase::kForward) names.push_back(program.StepName(step));
  }
  return names;
}

int64_t GradientBytes(const Program& program, const Step& step) {
  int64_t bytes = 0;
  for (const Use& use : step.reads) {
    if (use.operand.slot == Slot::kParamGrad) bytes += program.tensor(use.tensor).spec.size_bytes();
  }
  return bytes;
}

using Names = std::vector<std::string>;

TEST_CASE(
    "layers that follow each other are updated together, when the last one's backward is done") {
  CHECK(BackwardSteps(Grouped(GroupedNet(), 600)) ==
        Names{"loss backward_data", "fc backward_params", "fc backward_data", "fc update",
              "bn2 backward_data", "conv2 backward_params", "conv2 backward_data", "conv2 update",
              "bn1 backward_data", "conv1 backward_params", "conv1 update"});
  CHECK(Updates(Grouped(GroupedNet(), 609)).size() == 3);   // fc | bn2 conv2 bn1 | conv1
  CHECK(Updates(Grouped(GroupedNet(), 1281)).size() == 2);  // fc bn2 | conv2 bn1 conv1
  CHECK(Updates(Grouped(GroupedNet(), 1 << 20)).size() == 1);
  CHECK(Updates(Grouped(GroupedNet(), 0)).size() == 5);
  CHECK(Grouped(GroupedNet(), 0).steps == BuildProgram(GroupedNet(), {})->steps);
}

TEST_CASE("the operands of a group are numbered through") {
  const Program program = Grouped(GroupedNet(), 600);
  const Step& step = *Updates(program)[1];
  const StepSignature signature = program.Signature(step);
  const std::vector<std::string> params = {"bn2.weight", "bn2.bias", "conv2.weight"};
  for (int i = 0; i < 3; ++i) {
    const auto tensor = [&](const std::vector<Use>& uses, Slot slot) {
      const auto use = std::find_if(uses.begin(), uses.end(), [&](const Use& u) {
        return u.operand == Operand{slot, i};
      });
      REQUIRE(use != uses.end());
      return program.tensor(use->tensor).name;
    };
    const std::string& param = params[static_cast<size_t>(i)];
    CHECK(tensor(step.accumulates, Slot::kParam) == param);
    CHECK(tensor(step.accumulates, Slot::kOptimizer) == param + ".momentum");
    CHECK(tensor(step.reads, Slot::kParamGrad) == param + ".grad");
  }
  CHECK(!signature.Has({Slot::kParam, 3}));
}

TEST_CASE("with a scaled loss, checks and updates are grouped, and all checks come first") {
  const Program program = Grouped(GroupedNet(DType::kFp16), 600);
  Names optimizer;
  for (const Step& step : program.steps) {
    if (!IsOfLayer(step.phase)) optimizer.push_back(program.StepName(step));
  }
  CHECK(optimizer == Names{"fc check_gradients", "conv2 check_gradients", "conv1 check_gradients",
                           "fc update", "conv2 update", "conv1 update", "loss update_scale"});
  const StepSignature update = program.Signature(*Updates(program)[1]);
  CHECK(update.Has({Slot::kMaster, 2}));
  CHECK(!update.Has({Slot::kMaster, 0}));  // of bn2, which is fp32
  CHECK(update.Has({Slot::kBackup, 1}));
}

TEST_CASE("gradients do not wait for a layer with a large output, and a group has few tensors") {
  // The outputs of bn and conv are 2x4x1200x1200 floats, 44 MiB.
  constexpr int64_t kAll = int64_t{1} << 40;
  CHECK(Updates(Grouped(GroupedNet(DType::kFp32, 1200), kAll)).size() == 5);
  CHECK(Updates(Grouped(GroupedNet(DType::kFp32, 1000), kAll)).size() == 1);
  CHECK(Updates(Grouped(GroupedNet(DType::kFp16, 2000), kAll)).size() == 1);
  Graph deep({.name = "deep", .batch = 2});
  std::string x = deep.Input({3, 4, 4});
  for (int i = 0; i < 40; ++i)
    x = deep.Add("fc" + std::to_string(i), FullyConnected{.out_features = 4}, {x});
  deep.Loss(x, SoftmaxCrossEntropy{});
  CHECK(Updates(Grouped(deep, 1 << 20)).size() == 2);
}

TEST_CASE("in random networks, groups change only when parameters are updated") {
  for (uint32_t seed = 1; seed <= testing::RandomSeeds(100); ++seed) {
    CAPTURE(seed);
    for (const DType dtype : {DType::kFp32, DType::kBf16, DType::kFp16}) {
      const Graph graph = testing::RandomGraph(seed, {.dtype = dtype, .ports = seed % 2 == 1});
      const Program single = Grouped(graph, 0);
      const Program grouped = Grouped(graph, 500);
      CHECK(grouped.tensors == single.tensors);
      std::vector<TensorId> updated[2];
      for (const Program* program : {&single, &grouped}) {
        for (const Step* step : Updates(*program)) {
          for (const Use& use : step->accumulates)
            updated[program == &grouped].push_back(use.tensor);
        }
        std::sort(updated[program == &grouped].begin(), updated[program == &grouped].end());
      }
      CHECK(updated[0] == updated[1]);
      std::vector<bool> written(grouped.tensors.size(), false);
      for (const Step& step : grouped.steps) {
        for (const Use& use : step.writes) written[use.tensor.index()] = true;
        if (step.phase != Phase::kUpdate) continue;
        for (const Use& use : step.reads) {
          if (use.operand.slot == Slot::kParamGrad) REQUIRE(written[use.tensor.index()]);
        }
      }
      for (const Step* step : Updates(grouped)) CHECK(GradientBytes(grouped, *step) > 0);
    }
  }
}

TEST_CASE(
    "updates are grouped on a device with memory of its own, in training, if the planner may") {
  const DeviceDescription h200 = DescribedDevice("h200").value();
  const auto bytes = [](const ProgramOptions& options, const DeviceDescription& device) {
    return Lower(SmallNet(), options, device)->options.update_group_bytes;
  };
  CHECK(bytes({}, h200) > 0);
  CHECK(bytes({}, {}) == 0);
  CHECK(bytes({.update_group_bytes = 7}, {}) == 0);
  CHECK(bytes({.mode = Mode::kInference}, h200) == 0);
  CHECK(bytes({.accounting = Accounting::kPaper}, h200) == 0);
  CHECK(bytes({.offload_params = true}, h200) == 0);
  const Program whole = Lower(SmallNet(), {}, h200).value();
  const Program part = LowerPart(SmallNet(Layout::kChannelsFirst, false), whole, h200).value();
  CHECK(part.options == whole.options);
  CHECK(Updates(part).size() == 1);
  CHECK(Updates(whole).size() == 1);
}

TEST_CASE("plans of grouped updates are verified, and the same after a round trip") {
  const auto cpu = OpenCpu();
  for (uint32_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    const Program program = Grouped(testing::RandomGraph(seed), 500);
    const Program single = Grouped(testing::RandomGraph(seed), 0);
    for (const char* const policy : {"liveness", "superneurons", "chen"}) {
      const PlanResult result =
          MakePlan(program, {.policy = policy}, cpu->description(), cpu->backend()).value();
      const Plan read = Plan::FromJson(result.plan.ToJson()).value();
      CHECK(Verify(read).ok());
      CHECK(MatchesProgram(read, program).ok());
      if (Updates(program).size() < Updates(single).size())
        CHECK(!MatchesProgram(read, single).ok());
    }
  }
}

TEST_CASE(
    "training has the same bits with groups, and the smallest budget of offloaded parameters") {
  const auto cpu = OpenCpu();
  OwnMemoryDevice grouping(*cpu);
  for (const DType dtype : {DType::kFp32, DType::kBf16, DType::kFp16}) {
    for (const bool offload_params : {false, true}) {
      CAPTURE(Name(dtype));
      CAPTURE(offload_params);
      const Graph net = SmallNet(Layout::kChannelsFirst, true, dtype);
      const PlannerOptions planning = {
          .policy = "superneurons", .offload_params = offload_params, .strict = true};
      Session single = CreateSession(net, *cpu, planning).value();
      Session grouped = CreateSession(net, grouping, planning).value();
      const size_t fewer = single.plan().steps.size() - grouped.plan().steps.size();
      CHECK((fewer > 0) == !offload_params);
      if (offload_params) {
        CHECK(single.planning().minimum_budget_bytes == grouped.planning().minimum_budget_bytes);
      }
      for (int step = 0; step < 4; ++step) CHECK(Train(single, 1) == Train(grouped, 1));
      CheckSameState(single, grouped);
      const Graph part = SmallNet(Layout::kChannelsFirst, false, dtype);
      REQUIRE(single.SetTrainingGraph(part).ok());
      REQUIRE(grouped.SetTrainingGraph(part).ok());
      CHECK(Train(single, 2) == Train(grouped, 2));
      CheckSameState(single, grouped);
    }
  }
}

}  // namespace
}  // namespace neap

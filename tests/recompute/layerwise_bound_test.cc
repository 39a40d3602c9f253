#include "neap/recompute/layerwise_bound.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "neap/layers/activation.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/join.h"
#include "neap/layers/lrn.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/memory/transfer/residency.h"
#include "neap/recompute/recompute.h"
#include "tests/random_graph.h"

namespace neap {
namespace {

constexpr int64_t kMap = 2 * 4 * 8 * 8 * 4;  // bytes of an activation below

TEST_CASE("the working set of a step is what it touches, of a step in place what is left of that") {
  //   conv -- tanh -- fc: tanh's backward reads y and dy and writes dx, over dy if in place
  Graph net({.name = "set", .batch = 2});
  std::string x = net.Add("conv", Convolution{.out_channels = 4}, {net.Input({4, 8, 8})});
  x = net.Add("tanh", Tanh{}, {x});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 4}, {x}), SoftmaxCrossEntropy{});
  const Program program = BuildProgram(net, {}).value();
  const ComputeSequence runs = ProgramOrder(program);
  for (const bool in_place : {false, true}) {
    const std::vector<RunUsage> usage = UsagePerRun(program, FindLiveness(program, runs, in_place));
    for (size_t i = 0; i < runs.size(); ++i) {
      const std::string name = program.StepName(program.steps[runs[i].step.index()]);
      if (name == "conv forward") CHECK(usage[i].working_set == kMap);  // inputs do not count
      if (name == "tanh forward") CHECK(usage[i].working_set == (in_place ? 1 : 2) * kMap);
      if (name == "tanh backward_data") CHECK(usage[i].working_set == (in_place ? 2 : 3) * kMap);
      CHECK(usage[i].rebuilt == 0);
    }
  }
}

TEST_CASE("a gradient that waits for another branch is open") {
  //            +-- conv1 --+
  //   conv0 ---+           cat -- fc     while conv2's backward runs, conv1's share of the gradient
  //            +-- conv2 --+             waits, until conv1's backward adds up conv0's
  Graph net({.name = "open", .batch = 2});
  const std::string x = net.Add("conv0", Convolution{.out_channels = 4}, {net.Input({4, 8, 8})});
  const std::string a = net.Add("conv1", Convolution{.out_channels = 4}, {x});
  const std::string b = net.Add("conv2", Convolution{.out_channels = 4}, {x});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 4}, {net.Add("cat", Concat{}, {a, b})}),
           SoftmaxCrossEntropy{});
  const Program program = BuildProgram(net, {}).value();
  const ComputeSequence runs = ProgramOrder(program);
  const std::vector<RunUsage> usage = UsagePerRun(program, FindLiveness(program, runs, true));
  int waiting = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    const Step& step = program.steps[runs[i].step.index()];
    const std::string& layer = program.layers[step.layer.index()].name;
    if (step.phase == Phase::kForward) CHECK(usage[i].open == 0);
    if (usage[i].open == kMap && (layer == "conv1" || layer == "conv2")) ++waiting;
    if (layer == "conv0" && step.phase != Phase::kForward) CHECK(usage[i].open == 0);
  }
  CHECK(waiting > 0);
  CHECK(BoundLayerwise(program, true).bytes >= BoundLayerwise(program, true).l_peak);
}

TEST_CASE("what reruns have made and nobody touches yet is rebuilt") {
  //   reruns lrn1* lrn2* lrn3* : while lrn3* runs, lrn1 waits for lrn2'
  Graph net({.name = "rebuilt", .batch = 2});
  std::string x = net.Add("conv1", Convolution{.out_channels = 4}, {net.Input({4, 8, 8})});
  for (const char* name : {"lrn1", "lrn2", "lrn3"}) x = net.Add(name, LocalResponseNorm{}, {x});
  net.Loss(net.Add("conv2", Convolution{.out_channels = 4, .kernel = 8}, {x}),
           SoftmaxCrossEntropy{});
  const Program program = BuildProgram(net, {.accounting = Accounting::kPaper}).value();
  const ComputeSequence runs = SpeedCentric(program).runs;
  const std::vector<RunUsage> usage = UsagePerRun(program, FindLiveness(program, runs, false));
  std::vector<int64_t> rebuilt;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].recompute) rebuilt.push_back(usage[i].rebuilt);
  }
  CHECK(rebuilt == std::vector<int64_t>{0, 0, kMap});
}

TEST_CASE(
    "random networks: no plan is below the working sets, and the sum is no more than is there") {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    const Program program =
        BuildProgram(testing::RandomGraph(seed, {.ports = seed % 2 == 1}), {}).value();
    for (const auto order : {WithoutReruns, SpeedCentric, MemoryCentric, CostAware}) {
      const ComputeSequence runs = order(program).runs;
      for (const bool in_place : {false, true}) {
        const Liveness liveness = FindLiveness(program, runs, in_place);
        const std::vector<RunUsage> usage = UsagePerRun(program, liveness);
        const std::vector<int64_t> workspaces(runs.size(), 0);
        const Residency all = DecideResidency(program, liveness, workspaces, {});
        const Residency least = DecideResidency(program, liveness, workspaces,
                                                {.evictable = Evictable::kAll, .limit = {0, 0}});
        for (size_t i = 0; i < runs.size(); ++i) {
          REQUIRE(usage[i].working_set <= least.usage[i].activation_bytes);
          REQUIRE(usage[i].sum() <= all.usage[i].activation_bytes);
        }
      }
    }
  }
}

}  // namespace
}  // namespace neap

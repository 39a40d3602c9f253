#include "neap/recompute/recompute.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/join.h"
#include "neap/layers/lrn.h"
#include "neap/layers/pooling.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/nets/registry.h"
#include "neap/recompute/layerwise_bound.h"
#include "neap/recompute/segments.h"
#include "tests/random_graph.h"
#include "tests/recompute/runs.h"

namespace neap {
namespace {

using testing::BackwardOf;

constexpr Convolution kSame = {.out_channels = 4, .kernel = 3, .padding = 1};

// conv1 - layer1 ... layerN - conv2 - loss; the layers are LRNs, which backward needs x and y of.
Program OneSegment(int layers) {
  Graph net({.name = "segment", .batch = 2});
  std::string x = net.Add("conv1", kSame, {net.Input({4, 8, 8})});
  for (int i = 1; i <= layers; ++i) x = net.Add(absl::StrCat("lrn", i), LocalResponseNorm{}, {x});
  net.Loss(net.Add("conv2", Convolution{.out_channels = 4, .kernel = 8}, {x}),
           SoftmaxCrossEntropy{});
  return BuildProgram(net, {.accounting = Accounting::kPaper}).value();
}

std::string Backward(const Program& program, Recomputation recomputation) {
  return BackwardOf(program, OrderRuns(program, recomputation).runs);
}

TEST_CASE("without recomputation, and in inference, every step runs once in program order") {
  const Program program = OneSegment(3);
  CHECK(OrderRuns(program, Recomputation::kNone).runs == ProgramOrder(program));
  const Program inference =
      BuildProgram(testing::RandomGraph(3), {.mode = Mode::kInference}).value();
  for (const auto recomputation : {Recomputation::kSpeedCentric, Recomputation::kMemoryCentric,
                                   Recomputation::kCostAware, Recomputation::kEvenSegments})
    CHECK(OrderRuns(inference, recomputation).runs == ProgramOrder(inference));
}

TEST_CASE("speed-centric runs a segment again once, before the first step that wants of it") {
  //   forward    conv1  lrn1  lrn2  lrn3  conv2  loss
  //              kept   ----- dropped --  kept
  //   backward   loss' | lrn1* lrn2* lrn3*  conv2' | lrn3' | lrn2' | lrn1' | conv1'
  const Program program = OneSegment(3);
  CHECK(Backward(program, Recomputation::kSpeedCentric) ==
        "loss' lrn1* lrn2* lrn3* conv2' lrn3' lrn2' lrn1' conv1'");
}

TEST_CASE("memory-centric rebuilds what each step needs anew, but not what the last one has read") {
  //   conv2' reads lrn3                   lrn1* lrn2* lrn3*
  //   lrn3'  reads lrn2 and lrn3          lrn1* lrn2*         (lrn3 was read just now: it stays)
  //   lrn2'  reads lrn1 and lrn2          lrn1*
  //   lrn1'  reads conv1 and lrn1
  const Program program = OneSegment(3);
  CHECK(Backward(program, Recomputation::kMemoryCentric) ==
        "loss' lrn1* lrn2* lrn3* conv2' lrn1* lrn2* lrn3' lrn1* lrn2' lrn1' conv1'");
}

TEST_CASE("a segment of n layers costs n forwards, memory-centric n (n + 1) / 2") {
  for (int n = 1; n <= 12; ++n) {
    CAPTURE(n);
    const Program program = OneSegment(n);
    CHECK(ExtraForwards(OrderRuns(program, Recomputation::kSpeedCentric).runs) == n);
    CHECK(ExtraForwards(OrderRuns(program, Recomputation::kMemoryCentric).runs) == n * (n + 1) / 2);
  }
}

TEST_CASE("cost-aware is speed-centric where the segment stays under the bound") {
  // One layer of three operands at a time is the bound; two rebuilt layers exceed it already where
  // the convolution's backward is no larger than they are.
  const Program program = OneSegment(1);
  CHECK(Backward(program, Recomputation::kCostAware) ==
        Backward(program, Recomputation::kSpeedCentric));
  Graph net({.name = "wide", .batch = 2});
  std::string x = net.Add("wide", Convolution{.out_channels = 64}, {net.Input({4, 8, 8})});
  x = net.Add("wide_relu", Relu{}, {x});
  x = net.Add("conv1", kSame, {x});
  for (int i = 1; i <= 3; ++i) x = net.Add(absl::StrCat("lrn", i), LocalResponseNorm{}, {x});
  net.Loss(net.Add("conv2", Convolution{.out_channels = 4, .kernel = 8}, {x}),
           SoftmaxCrossEntropy{});
  const Program wide = BuildProgram(net, {.accounting = Accounting::kPaper}).value();
  CHECK(Backward(wide, Recomputation::kCostAware) == Backward(wide, Recomputation::kSpeedCentric));
}

TEST_CASE("cost-aware is memory-centric in the segment that makes the bound") {
  // Four large layers kept at once are more than any layer's x, y, dy and dx.
  const Program program = OneSegment(6);
  const ComputeSequence runs = OrderRuns(program, Recomputation::kCostAware).runs;
  CHECK(Backward(program, Recomputation::kCostAware) ==
        Backward(program, Recomputation::kMemoryCentric));
  CHECK(ExtraForwards(runs) == 21);
}

TEST_CASE("batch norm is rebuilt from its saved statistics, which are kept") {
  //   exact: relu's backward reads y, batch norm's reads x (conv1, a checkpoint) and what it saved;
  //   conv2's reads relu.
  Graph net({.name = "bn", .batch = 2});
  std::string x = net.Add("wide", Convolution{.out_channels = 64}, {net.Input({4, 8, 8})});
  x = net.Add("conv1", kSame, {net.Add("wide_relu", Relu{}, {x})});
  x = net.Add("relu", Relu{}, {net.Add("bn", BatchNorm{}, {x})});
  net.Loss(net.Add("conv2", Convolution{.out_channels = 4, .kernel = 8}, {x}),
           SoftmaxCrossEntropy{});
  const Program program = BuildProgram(net, {}).value();
  CHECK(Backward(program, Recomputation::kSpeedCentric) ==
        "loss' bn* relu* conv2' relu' bn' conv1' wide_relu' wide'");
}

TEST_CASE("even segments: convolutions run again too, and only what crosses a cut is kept") {
  //   9 forward steps make segments of 3; conv3 and conv6 cross the cuts
  //   forward    conv1 conv2 conv3 | conv4 conv5 conv6 | conv7 conv8 loss
  //   backward   conv7* conv8* loss' conv8' conv7' | conv4* conv5* conv6' ..., as loss' reads conv8
  Graph net({.name = "chen", .batch = 2});
  std::string x = net.Input({4, 8, 8});
  for (int i = 1; i <= 7; ++i) x = net.Add(absl::StrCat("conv", i), kSame, {x});
  net.Loss(net.Add("conv8", Convolution{.out_channels = 4, .kernel = 8}, {x}),
           SoftmaxCrossEntropy{});
  const Program program = BuildProgram(net, {.accounting = Accounting::kPaper}).value();
  CHECK(Backward(program, Recomputation::kEvenSegments) ==
        "conv7* conv8* loss' conv8' conv7' conv4* conv5* conv6' conv5' conv4' conv1* conv2* conv3' "
        "conv2' "
        "conv1'");
}

// Whether every run finds what it reads: what is dropped is there if it was rebuilt since.
void CheckSequence(const Program& program, const Segments& segments, const ComputeSequence& runs) {
  size_t next = 0;
  for (const Run& run : runs) {
    if (!run.recompute) REQUIRE(run.step.index() == next++);
  }
  REQUIRE(next == program.steps.size());
  const std::vector<RunUsage> usage =
      UsagePerRun(program, FindLiveness(program, runs, /*in_place=*/true));
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i].recompute) continue;
    REQUIRE(segments.of_step[runs[i].step.index()].has_value());
    const auto later = std::find_if(runs.begin() + static_cast<std::ptrdiff_t>(i), runs.end(),
                                    [](const Run& run) { return !run.recompute; });
    REQUIRE(later != runs.end());  // it is for somebody
    REQUIRE(program.steps[later->step.index()].phase != Phase::kForward);
  }
}

TEST_CASE(
    "random networks: every step runs once in order, reruns come right before backward steps") {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    for (const Accounting accounting : {Accounting::kExact, Accounting::kPaper}) {
      const Program program =
          BuildProgram(testing::RandomGraph(seed), {.accounting = accounting}).value();
      const Segments segments = CheckpointSegments(program);
      const ComputeSequence speed = OrderRuns(program, Recomputation::kSpeedCentric).runs;
      const ComputeSequence memory = OrderRuns(program, Recomputation::kMemoryCentric).runs;
      const ComputeSequence aware = OrderRuns(program, Recomputation::kCostAware).runs;
      for (const ComputeSequence* runs : {&speed, &memory, &aware})
        CheckSequence(program, segments, *runs);
      CheckSequence(program, EvenSegments(program),
                    OrderRuns(program, Recomputation::kEvenSegments).runs);
      REQUIRE(ExtraForwards(speed) <= ExtraForwards(aware));
      REQUIRE(ExtraForwards(aware) <= ExtraForwards(memory));
    }
  }
}

TEST_CASE("random networks: a rerun makes something that is read before it dies") {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    const Program program = BuildProgram(testing::RandomGraph(seed), {}).value();
    for (const Recomputation recomputation :
         {Recomputation::kSpeedCentric, Recomputation::kMemoryCentric, Recomputation::kCostAware,
          Recomputation::kEvenSegments}) {
      const ComputeSequence runs = OrderRuns(program, recomputation).runs;
      std::vector<bool> is_read(runs.size(), false);
      for (const Lifetime& life : Lifetimes(program, runs)) {
        if (life.uses.size() > 1) is_read[static_cast<size_t>(life.begin)] = true;
      }
      for (size_t i = 0; i < runs.size(); ++i) {
        if (runs[i].recompute) REQUIRE(is_read[i]);
      }
    }
  }
}

TEST_CASE("speed-centric runs each forward step again at most once") {
  for (const char* net : {"alexnet", "resnet50", "inception_v4", "densenet121"}) {
    CAPTURE(net);
    const Program program = BuildProgram(nets::Build(net, {.batch = 2}).value(), {}).value();
    std::vector<int> again(program.steps.size(), 0);
    for (const Run& run : OrderRuns(program, Recomputation::kSpeedCentric).runs) {
      if (run.recompute) REQUIRE(++again[run.step.index()] == 1);
    }
  }
}

}  // namespace
}  // namespace neap

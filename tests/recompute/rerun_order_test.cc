#include "neap/recompute/rerun_order.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "neap/core/program/fuse.h"
#include "neap/core/program/passes.h"
#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fusion/rules.h"
#include "neap/layers/join.h"
#include "neap/layers/pooling.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/nets/registry.h"
#include "neap/recompute/recompute.h"
#include "tests/recompute/one_segment.h"
#include "tests/recompute/runs.h"

namespace neap {
namespace {

using testing::BackwardOf;
using testing::kSame;
using testing::OneSegment;

TEST_CASE("speed-centric runs a segment again once, before the first step that wants of it") {
  //   forward    conv1  lrn1  lrn2  lrn3  conv2  loss
  //              kept   ----- dropped --  kept
  //   backward   loss' | lrn1* lrn2* lrn3*  conv2' | lrn3' | lrn2' | lrn1' | conv1'
  const Program program = OneSegment(3);
  CHECK(BackwardOf(program, SpeedCentric(program).runs) ==
        "loss' lrn1* lrn2* lrn3* conv2' lrn3' lrn2' lrn1' conv1'");
}

TEST_CASE("memory-centric rebuilds what each step needs anew, but not what the last one has read") {
  //   conv2' reads lrn3                   lrn1* lrn2* lrn3*
  //   lrn3'  reads lrn2 and lrn3          lrn1* lrn2*         (lrn3 was read just now: it stays)
  //   lrn2'  reads lrn1 and lrn2          lrn1*
  //   lrn1'  reads conv1 and lrn1
  const Program program = OneSegment(3);
  CHECK(BackwardOf(program, MemoryCentric(program).runs) ==
        "loss' lrn1* lrn2* lrn3* conv2' lrn1* lrn2* lrn3' lrn1* lrn2' lrn1' conv1'");
}

TEST_CASE("on demand rebuilds what a step reads, with the way to it, and keeps it until used") {
  //   conv2' reads lrn3: the way to it is lrn1 lrn2, which lrn3' and lrn2' find in memory
  const Program program = OneSegment(3);
  CHECK(BackwardOf(program,
                   OrderReruns(program, CheckpointSegments(program), RerunMode::kOnDemand)) ==
        "loss' lrn1* lrn2* lrn3* conv2' lrn3' lrn2' lrn1' conv1'");
  //   with lrn2 kept, lrn1 is not rebuilt before lrn2' reads it
  Segments segments = NothingDropped(program);
  for (const Step& step : program.steps) {
    const std::string& layer = program.layers[step.layer.index()].name;
    if (step.phase == Phase::kForward && (layer == "lrn1" || layer == "lrn3"))
      SetDropped(step, true, segments);
  }
  CHECK(BackwardOf(program, OrderReruns(program, segments, RerunMode::kOnDemand)) ==
        "loss' lrn3* conv2' lrn3' lrn1* lrn2' lrn1' conv1'");
}

TEST_CASE("memory-centric keeps a mask that was rebuilt with the result for the result's reader") {
  //   conv2' reads bn's result, bn' its mask: a byte for 16 of the result
  Graph net({.name = "block", .batch = 2});
  const Convolution convolution = {.out_channels = 4, .kernel = 1, .bias = false};
  const std::string x = net.Add("stem", convolution, {net.Input({4, 8, 8})});
  const std::string bn = net.Add("bn", BatchNorm{}, {net.Add("conv1", convolution, {x})});
  const std::string sum = net.Add("relu", Relu{}, {net.Add("add", Add{}, {bn, x})});
  const std::string last =
      net.Add("pool", GlobalAveragePool{}, {net.Add("conv2", convolution, {sum})});
  net.Loss(last, SoftmaxCrossEntropy{});
  const Program program =
      BuildProgram(Fuse(Resolve(net, Mode::kTraining).value(), Mode::kTraining, CpuRules()), {})
          .value();
  Segments segments = NothingDropped(program);
  for (const Step& step : program.steps) {
    if (step.phase == Phase::kForward && program.layers[step.layer.index()].name == "bn")
      SetDropped(step, true, segments);
  }
  const ComputeSequence runs = OrderReruns(program, segments, RerunMode::kMemoryCentric);
  CHECK(ExtraForwards(runs) == 1);
}

TEST_CASE("memory-centric drops a result again that is small beside what its step reads") {
  Graph net({.name = "narrow", .batch = 2});
  const std::string wide =
      net.Add("wide", Convolution{.out_channels = 64, .kernel = 1}, {net.Input({4, 8, 8})});
  std::string x = net.Add("narrow", Convolution{.out_channels = 4, .kernel = 1}, {wide});
  x = net.Add("lrn", LocalResponseNorm{}, {x});
  net.Loss(net.Add("last", Convolution{.out_channels = 4, .kernel = 8}, {x}),
           SoftmaxCrossEntropy{});
  const Program program = BuildProgram(net, {}).value();
  Segments segments = NothingDropped(program);
  for (const Step& step : program.steps) {
    const std::string& layer = program.layers[step.layer.index()].name;
    if (step.phase == Phase::kForward && (layer == "narrow" || layer == "lrn"))
      SetDropped(step, true, segments);
  }
  CHECK(BackwardOf(program, OrderReruns(program, segments, RerunMode::kMemoryCentric)) ==
        "loss' narrow* lrn* last' narrow* lrn' narrow' wide'");
}

TEST_CASE("a segment of n layers costs n forwards, memory-centric n (n + 1) / 2") {
  for (int n = 1; n <= 12; ++n) {
    CAPTURE(n);
    const Program program = OneSegment(n);
    CHECK(ExtraForwards(SpeedCentric(program).runs) == n);
    CHECK(ExtraForwards(MemoryCentric(program).runs) == n * (n + 1) / 2);
  }
}

TEST_CASE("segments may have different modes") {
  //   forward    conv1*  lrn1 lrn2  conv2*  lrn3 lrn4  conv3*  loss
  //   segment            --- 0 ---          --- 1 ---
  Graph net({.name = "two", .batch = 2});
  std::string x = net.Add("conv1", kSame, {net.Input({4, 8, 8})});
  for (const char* name : {"lrn1", "lrn2"}) x = net.Add(name, LocalResponseNorm{}, {x});
  x = net.Add("conv2", kSame, {x});
  for (const char* name : {"lrn3", "lrn4"}) x = net.Add(name, LocalResponseNorm{}, {x});
  net.Loss(net.Add("conv3", Convolution{.out_channels = 4, .kernel = 8}, {x}),
           SoftmaxCrossEntropy{});
  const Program program = BuildProgram(net, {.accounting = Accounting::kPaper}).value();
  const Segments segments = CheckpointSegments(program);
  const auto order = [&](RerunMode first, RerunMode second) {
    return BackwardOf(program, OrderReruns(program, segments, {first, second}));
  };
  CHECK(order(RerunMode::kSpeedCentric, RerunMode::kMemoryCentric) ==
        "loss' lrn3* lrn4* conv3' lrn3* lrn4' lrn3' lrn1* lrn2* conv2' lrn2' lrn1' conv1'");
  CHECK(order(RerunMode::kMemoryCentric, RerunMode::kSpeedCentric) ==
        "loss' lrn3* lrn4* conv3' lrn4' lrn3' lrn1* lrn2* conv2' lrn1* lrn2' lrn1' conv1'");
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
  CHECK(BackwardOf(program, SpeedCentric(program).runs) ==
        "loss' bn* relu* conv2' relu' bn' conv1' wide_relu' wide'");
}

TEST_CASE("speed-centric runs each forward step again at most once") {
  for (const char* net : {"alexnet", "resnet50", "inception_v4", "densenet121"}) {
    CAPTURE(net);
    const Program program = BuildProgram(nets::Build(net, {.batch = 2}).value(), {}).value();
    std::vector<int> again(program.steps.size(), 0);
    for (const Run& run : SpeedCentric(program).runs) {
      if (run.recompute) REQUIRE(++again[run.step.index()] == 1);
    }
  }
}

}  // namespace
}  // namespace neap

#include "neap/recompute/cost_aware.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/base/units.h"
#include "neap/layers/activation.h"
#include "neap/layers/convolution.h"
#include "neap/layers/lrn.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/nets/registry.h"
#include "neap/recompute/layerwise_bound.h"
#include "neap/recompute/recompute.h"
#include "neap/recompute/rerun_order.h"
#include "tests/recompute/one_segment.h"
#include "tests/recompute/runs.h"

namespace neap {
namespace {

using testing::BackwardOf;
using testing::kSame;
using testing::OneSegment;

TEST_CASE("cost-aware is speed-centric where the segment stays under the bound") {
  // One layer of three operands at a time is the bound; two rebuilt layers exceed it already where
  // the convolution's backward is no larger than they are.
  const Program program = OneSegment(1);
  CHECK(BackwardOf(program, CostAware(program).runs) ==
        BackwardOf(program, SpeedCentric(program).runs));
  Graph net({.name = "wide", .batch = 2});
  std::string x = net.Add("wide", Convolution{.out_channels = 64}, {net.Input({4, 8, 8})});
  x = net.Add("wide_relu", Relu{}, {x});
  x = net.Add("conv1", kSame, {x});
  for (int i = 1; i <= 3; ++i) x = net.Add(absl::StrCat("lrn", i), LocalResponseNorm{}, {x});
  net.Loss(net.Add("conv2", Convolution{.out_channels = 4, .kernel = 8}, {x}),
           SoftmaxCrossEntropy{});
  const Program wide = BuildProgram(net, {.accounting = Accounting::kPaper}).value();
  CHECK(BackwardOf(wide, CostAware(wide).runs) == BackwardOf(wide, SpeedCentric(wide).runs));
}

TEST_CASE("cost-aware is memory-centric in the segment that makes the bound") {
  // Four large layers kept at once are more than any layer's x, y, dy and dx.
  const Program program = OneSegment(6);
  const ComputeSequence runs = CostAware(program).runs;
  CHECK(BackwardOf(program, CostAware(program).runs) ==
        BackwardOf(program, MemoryCentric(program).runs));
  CHECK(ExtraForwards(runs) == 21);
}

TEST_CASE(
    "without a bound to meet every segment is speed-centric, and nothing becomes a checkpoint") {
  const Program program = OneSegment(6);
  Segments segments = CheckpointSegments(program);
  const std::vector<bool> before = segments.checkpoints;
  MeetBound(program, kUnlimited, segments);
  CHECK(segments.checkpoints == before);
  CHECK(CostAwareOrder(program, segments, kUnlimited) ==
        OrderReruns(program, segments, RerunMode::kSpeedCentric));
}

TEST_CASE("added checkpoints bring memory-centric reruns under the layer-wise bound") {
  for (const char* name : {"resnet50", "inception_v4", "alexnet"}) {
    CAPTURE(name);
    const Program program = BuildProgram(nets::Build(name, {.batch = 2}).value(), {}).value();
    const int64_t bound_bytes = BoundLayerwise(program, CanBeInPlace(program)).bytes;
    Segments segments = CheckpointSegments(program);
    const Segments before = segments;
    MeetBound(program, bound_bytes, segments);
    ComputeSequence runs = OrderReruns(program, segments, RerunMode::kMemoryCentric);
    const Liveness liveness = FindLiveness(program, runs, CanBeInPlace(program));
    const std::vector<RunUsage> usage = UsagePerRun(program, liveness);
    for (size_t i = 0; i < runs.size(); ++i) {
      if (runs[i].recompute) CHECK(usage[i].sum() <= bound_bytes);
    }
    for (const Tensor& tensor : program.tensors) {
      const size_t i = tensor.id.index();
      if (before.checkpoints[i]) CHECK(segments.checkpoints[i]);
      if (segments.checkpoints[i] && !before.checkpoints[i]) CHECK(!segments.dropped[i]);
    }
  }
}

}  // namespace
}  // namespace neap

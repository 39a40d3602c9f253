#include "neap/memory/policies/chen.h"

#include <doctest/doctest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "neap/layers/convolution.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "tests/recompute/one_segment.h"
#include "tests/recompute/runs.h"

namespace neap {
namespace {

using testing::BackwardOf;
using testing::kSame;

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
  CHECK(BackwardOf(program, SublinearOrder(program).runs) ==
        "conv7* conv8* loss' conv8' conv7' conv4* conv5* conv6' conv5' conv4' conv1* conv2* conv3' "
        "conv2' "
        "conv1'");
}

}  // namespace
}  // namespace neap

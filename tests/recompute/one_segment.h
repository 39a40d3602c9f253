// A network of one segment, for tests of recomputation.
#pragma once

#include <string>

#include "absl/strings/str_cat.h"
#include "neap/core/program/program.h"
#include "neap/layers/convolution.h"
#include "neap/layers/lrn.h"
#include "neap/layers/softmax_cross_entropy.h"

namespace neap::testing {

inline constexpr Convolution kSame = {.out_channels = 4, .kernel = 3, .padding = 1};

// conv1 - layer1 ... layerN - conv2 - loss; the layers are LRNs, which backward needs x and y of.
inline Program OneSegment(int layers) {
  Graph net({.name = "segment", .batch = 2});
  std::string x = net.Add("conv1", kSame, {net.Input({4, 8, 8})});
  for (int i = 1; i <= layers; ++i) x = net.Add(absl::StrCat("lrn", i), LocalResponseNorm{}, {x});
  net.Loss(net.Add("conv2", Convolution{.out_channels = 4, .kernel = 8}, {x}),
           SoftmaxCrossEntropy{});
  return BuildProgram(net, {.accounting = Accounting::kPaper}).value();
}

}  // namespace neap::testing

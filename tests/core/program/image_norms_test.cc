// Norms that do not couple images in sub-batches.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "neap/core/program/program.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/norm/group_norm.h"
#include "neap/layers/norm/layer_norm.h"
#include "neap/layers/softmax_cross_entropy.h"

namespace neap {
namespace {

const Step& StepOfPart(const Program& program, const std::string& name) {
  const auto found = std::find_if(program.steps.begin(), program.steps.end(),
                                  [&](const Step& step) { return program.StepName(step) == name; });
  REQUIRE(found != program.steps.end());
  return *found;
}

TEST_CASE("norms of each image are run in sub-batches, and later ones add to the gradients") {
  Graph net({.name = "norms", .batch = 5});
  std::string x = net.Input({6, 4, 4});
  x = net.Add("conv", Convolution{.out_channels = 6}, {x});
  x = net.Add("group", GroupNorm{.groups = 2}, {x});
  x = net.Add("layer", LayerNorm{}, {x});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 4}, {x}), SoftmaxCrossEntropy{});
  const Program program = BuildProgram(net, {.sub_batches = 2}).value();
  for (const std::string norm : {"group", "layer"}) {
    CAPTURE(norm);
    const Step& first = StepOfPart(program, norm + "[1/2] backward_data");
    CHECK(first.accumulates.empty());
    const Step& second = StepOfPart(program, norm + "[2/2] backward_data");
    REQUIRE(second.accumulates.size() == 2);
    CHECK(program.tensor(second.accumulates[0].tensor).name == norm + ".weight.grad");
    CHECK(program.tensor(second.accumulates[1].tensor).name == norm + ".bias.grad");
    CHECK(program.AccumulationScratchBytes(second) == 0);
    const StepSignature signature = program.Signature(second);
    CHECK(signature.Accumulates({Slot::kParamGrad, 1}));
    CHECK(signature.Spec({Slot::kSaved, 0}).shape.n() == 2);  // images of the shorter part
  }
}

}  // namespace
}  // namespace neap

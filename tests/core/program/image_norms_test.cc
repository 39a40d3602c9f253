// Norms that do not couple images in sub-batches.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "neap/core/program/program.h"
#include "neap/layers/attention/attention.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/join.h"
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

TEST_CASE(
    "kernels of layer norms and depthwise convolutions add the gradient of the residual sum") {
  const Convolution depthwise = {.out_channels = 6, .kernel = 3, .padding = 1, .groups = 6};
  for (const Layer& norm : {Layer(LayerNorm{}), Layer(depthwise), Layer(GroupNorm{})}) {
    CAPTURE(norm.type());
    Graph net({.name = "residual", .batch = 2});
    const std::string x = net.Add("stem", Convolution{.out_channels = 6}, {net.Input({6, 4, 4})});
    const std::string normed = net.Add("norm", norm, {x});
    const std::string branch = net.Add("conv", Convolution{.out_channels = 6}, {normed});
    const std::string sum = net.Add("sum", Add{}, {branch, x});
    net.Loss(net.Add("fc", FullyConnected{.out_features = 4}, {sum}), SoftmaxCrossEntropy{});
    const Program program = BuildProgram(net, {}).value();
    const Step& step = StepOfPart(program, "norm backward_data");
    const bool adds = norm.As<GroupNorm>() == nullptr;
    CHECK(std::count_if(step.reads.begin(), step.reads.end(),
                        [](const Use& use) { return use.operand.slot == Slot::kAddend; }) == 1);
    CHECK(KernelAddsAddends(step) == adds);
    CHECK(program.Signature(step).Has({Slot::kAddend, 0}) == adds);
    CHECK(program.Additions(step).size() == (adds ? 0 : 1));
  }
}

TEST_CASE("attention computes the gradient of a bias that leads to parameters, and of no other") {
  Graph net({.name = "biased", .batch = 2});
  const std::string x = net.Input({6, 5});
  net.Input("mask", {1, 5, 5});
  const std::string qkv = net.Add("qkv", Convolution{.out_channels = 3 * 6}, {x});
  const std::string learned = net.Add("learned", Convolution{.out_channels = 1}, {"mask"});
  std::string y = net.Add("masked", Attention{.heads = 2}, {qkv, "mask"});
  y = net.Add("biased", Attention{}, {y, learned});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 4}, {y}), SoftmaxCrossEntropy{});
  const Program program = BuildProgram(net, {}).value();
  const Operand dbias = {Slot::kInputGrad, 1};
  CHECK_FALSE(program.Signature(StepOfPart(program, "masked backward_data")).Has(dbias));
  CHECK(program.Signature(StepOfPart(program, "biased backward_data")).Has(dbias));
}

}  // namespace
}  // namespace neap

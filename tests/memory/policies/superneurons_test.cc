#include "neap/memory/policies/superneurons.h"

#include <doctest/doctest.h>

#include <string>

#include "neap/layers/activation.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/pooling.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "tests/tensor_names.h"

namespace neap {
namespace {

using testing::NamesOf;

TEST_CASE("offload takes the results of CONV layers, the others all checkpoints of their order") {
  //   conv1 -> relu1 -> pool -> conv2 -> fc     ReLU's backward reads y: relu1 is kept for conv1
  Graph net({.name = "offload", .batch = 2});
  std::string x = net.Add("conv1", Convolution{.out_channels = 4}, {net.Input({4, 8, 8})});
  x = net.Add("pool", MaxPool{}, {net.Add("relu1", Relu{}, {x})});
  x = net.Add("conv2", Convolution{.out_channels = 4}, {x});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 3}, {x}), SoftmaxCrossEntropy{});
  const Program program = BuildProgram(net, {}).value();
  CHECK(NamesOf(program, ConvolutionResults(program, {})) == "relu1 conv2");
  CHECK(NamesOf(program, CheckpointResults(program, SpeedCentric(program))) == "relu1 conv2 fc");
  CHECK(CheckpointResults(program, WithoutReruns(program)).empty());
}

}  // namespace
}  // namespace neap

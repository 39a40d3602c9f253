#include "neap/memory/policies/vdnn.h"

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

TEST_CASE("vDNN-all offloads the inputs of all layers, vDNN-conv those of CONV layers") {
  //   input -> conv1 -> relu1 -> conv2 -> pool -> fc -> loss     the batch is not an activation
  Graph net({.name = "vdnn", .batch = 2});
  std::string x = net.Add("conv1", Convolution{.out_channels = 4}, {net.Input({4, 8, 8})});
  x = net.Add("conv2", Convolution{.out_channels = 4}, {net.Add("relu1", Relu{}, {x})});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 3}, {net.Add("pool", MaxPool{}, {x})}),
           SoftmaxCrossEntropy{});
  const Program program = BuildProgram(net, {}).value();
  CHECK(NamesOf(program, AllInputs(program, {})) == "conv1 relu1 conv2 pool fc");
  CHECK(NamesOf(program, ConvolutionInputs(program, {})) == "relu1");
}

}  // namespace
}  // namespace neap

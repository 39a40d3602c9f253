#include "neap/nets/lenet.h"

#include <string>

#include "neap/layers/activation.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/pooling.h"
#include "neap/layers/softmax_cross_entropy.h"

namespace neap::nets {

Graph LeNet(const LeNetOptions& options) {
  Graph net(
      {.name = "lenet", .batch = options.batch, .dtype = options.dtype, .layout = options.layout});
  std::string x = net.Input({options.channels, options.image, options.image});
  x = net.Add("conv1", Convolution{.out_channels = 20, .kernel = 5}, {x});
  x = net.Add("pool1", MaxPool{}, {x});
  x = net.Add("conv2", Convolution{.out_channels = 50, .kernel = 5}, {x});
  x = net.Add("pool2", MaxPool{}, {x});
  x = net.Add("fc1", FullyConnected{.out_features = 500}, {x});
  x = net.Add("relu1", Relu{}, {x});
  x = net.Add("fc2", FullyConnected{.out_features = options.classes}, {x});
  net.Loss(x, SoftmaxCrossEntropy{});
  return net;
}

}  // namespace neap::nets

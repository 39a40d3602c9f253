#include "neap/nets/alexnet.h"

#include <string>

#include "neap/layers/activation.h"
#include "neap/layers/convolution.h"
#include "neap/layers/dropout.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/lrn.h"
#include "neap/layers/pooling.h"
#include "neap/layers/softmax_cross_entropy.h"

namespace neap::nets {
namespace {

constexpr MaxPool kOverlappingPool = {.kernel = 3, .stride = 2};
// Krizhevsky et al. (2012), section 3.3: k = 2, n = 5, alpha = 1e-4, which there multiplies the sum
// of squares, not the mean.
constexpr LocalResponseNorm kLrn = {.size = 5, .alpha = 5e-4F, .beta = 0.75F, .k = 2.0F};

}  // namespace

Graph AlexNet(const AlexNetOptions& options) {
  Graph net({.name = "alexnet-torchvision",
             .batch = options.batch,
             .dtype = options.dtype,
             .layout = options.layout});
  const Dropout dropout = {.probability = options.dropout};
  std::string x = net.Input({options.channels, options.image, options.image});
  x = net.Add("features.0",
              Convolution{.out_channels = 64, .kernel = 11, .stride = 4, .padding = 2}, {x});
  x = net.Add("features.1", Relu{}, {x});
  x = net.Add("features.2", kOverlappingPool, {x});
  x = net.Add("features.3", Convolution{.out_channels = 192, .kernel = 5, .padding = 2}, {x});
  x = net.Add("features.4", Relu{}, {x});
  x = net.Add("features.5", kOverlappingPool, {x});
  x = net.Add("features.6", Convolution{.out_channels = 384, .kernel = 3, .padding = 1}, {x});
  x = net.Add("features.7", Relu{}, {x});
  x = net.Add("features.8", Convolution{.out_channels = 256, .kernel = 3, .padding = 1}, {x});
  x = net.Add("features.9", Relu{}, {x});
  x = net.Add("features.10", Convolution{.out_channels = 256, .kernel = 3, .padding = 1}, {x});
  x = net.Add("features.11", Relu{}, {x});
  x = net.Add("features.12", kOverlappingPool, {x});
  x = net.Add("classifier.0", dropout, {x});
  x = net.Add("classifier.1", FullyConnected{.out_features = 4096}, {x});
  x = net.Add("classifier.2", Relu{}, {x});
  x = net.Add("classifier.3", dropout, {x});
  x = net.Add("classifier.4", FullyConnected{.out_features = 4096}, {x});
  x = net.Add("classifier.5", Relu{}, {x});
  x = net.Add("classifier.6", FullyConnected{.out_features = options.classes}, {x});
  net.Loss(x, SoftmaxCrossEntropy{});
  return net;
}

Graph AlexNetPaper(const AlexNetPaperOptions& options) {
  Graph net({.name = "alexnet",
             .batch = options.batch,
             .dtype = options.dtype,
             .layout = options.layout});
  const Dropout dropout = {.probability = options.dropout};
  std::string x = net.Input({options.channels, options.image, options.image});
  x = net.Add("conv1", Convolution{.out_channels = 96, .kernel = 11, .stride = 4}, {x});
  x = net.Add("relu1", Relu{}, {x});
  x = net.Add("lrn1", kLrn, {x});
  x = net.Add("pool1", kOverlappingPool, {x});
  x = net.Add("conv2", Convolution{.out_channels = 256, .kernel = 5, .padding = 2}, {x});
  x = net.Add("relu2", Relu{}, {x});
  x = net.Add("lrn2", kLrn, {x});
  x = net.Add("pool2", kOverlappingPool, {x});
  x = net.Add("conv3", Convolution{.out_channels = 384, .kernel = 3, .padding = 1}, {x});
  x = net.Add("relu3", Relu{}, {x});
  x = net.Add("conv4", Convolution{.out_channels = 384, .kernel = 3, .padding = 1}, {x});
  x = net.Add("relu4", Relu{}, {x});
  x = net.Add("conv5", Convolution{.out_channels = 256, .kernel = 3, .padding = 1}, {x});
  x = net.Add("relu5", Relu{}, {x});
  x = net.Add("pool5", kOverlappingPool, {x});
  x = net.Add("fc1", FullyConnected{.out_features = 4096}, {x});
  x = net.Add("relu6", Relu{}, {x});
  x = net.Add("drop1", dropout, {x});
  x = net.Add("fc2", FullyConnected{.out_features = 4096}, {x});
  x = net.Add("relu7", Relu{}, {x});
  x = net.Add("drop2", dropout, {x});
  x = net.Add("fc3", FullyConnected{.out_features = options.classes}, {x});
  net.Loss(x, SoftmaxCrossEntropy{});
  return net;
}

}  // namespace neap::nets

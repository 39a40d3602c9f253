#include "neap/nets/vgg.h"

#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/layers/activation.h"
#include "neap/layers/convolution.h"
#include "neap/layers/dropout.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/pooling.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/nets/initial_values.h"

namespace neap::nets {
namespace {

std::string Features(Graph& net, const std::array<int64_t, 5>& convolutions, std::string x) {
  int index = 0;  // of torchvision's nn.Sequential
  auto add = [&](Layer layer) {
    x = net.Add(absl::StrCat("features.", index++), std::move(layer), {x});
  };
  for (size_t stage = 0; stage < kVggWidths.size(); ++stage) {
    for (int64_t i = 0; i < convolutions[stage]; ++i) {
      add(Convolution{.out_channels = kVggWidths[stage], .kernel = 3, .padding = 1});
      add(Relu{});
    }
    add(MaxPool{});
  }
  return x;
}

}  // namespace

Graph Vgg(const VggOptions& options) {
  const int64_t depth =
      std::accumulate(options.convolutions.begin(), options.convolutions.end(), int64_t{3});
  Graph net({.name = absl::StrCat("vgg", depth),
             .batch = options.batch,
             .dtype = options.dtype,
             .layout = options.layout});
  const Dropout dropout = {.probability = options.dropout};
  std::string x = net.Input({options.channels, options.image, options.image});
  x = Features(net, options.convolutions, x);
  x = net.Add("classifier.0", FullyConnected{.out_features = 4096}, {x});
  x = net.Add("classifier.1", Relu{}, {x});
  x = net.Add("classifier.2", dropout, {x});
  x = net.Add("classifier.3", FullyConnected{.out_features = 4096}, {x});
  x = net.Add("classifier.4", Relu{}, {x});
  x = net.Add("classifier.5", dropout, {x});
  x = net.Add("classifier.6", FullyConnected{.out_features = options.classes}, {x});
  net.Loss(x, SoftmaxCrossEntropy{});
  return WithInitialValues(net, {.convolution = kHeFanOut, .linear = kNormal001});
}

}  // namespace neap::nets

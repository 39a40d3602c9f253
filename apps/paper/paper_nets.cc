#include "apps/paper/paper_nets.h"

#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/join.h"
#include "neap/layers/pooling.h"
#include "neap/layers/softmax_cross_entropy.h"

namespace neap::apps {
namespace {

std::string AddConvolution(Graph& net, const std::string& name, const std::string& x, int64_t maps,
                           int64_t kernel, int64_t stride) {
  return net.Add(name,
                 Convolution{.out_channels = maps,
                             .kernel = kernel,
                             .stride = stride,
                             .padding = kernel / 2,
                             .bias = false},
                 {x});
}

std::string AddBottleneck(Graph& net, const std::string& prefix, const std::string& x,
                          int64_t width, int64_t stride, bool projects) {
  constexpr int64_t kExpansion = 4;
  const std::string shortcut =
      projects ? AddConvolution(net, prefix + "downsample", x, kExpansion * width, 1, stride) : x;
  std::string y = AddConvolution(net, prefix + "conv1", x, width, 1, 1);
  y = net.Add(prefix + "relu1", Relu{}, {net.Add(prefix + "bn1", BatchNorm{}, {y})});
  y = AddConvolution(net, prefix + "conv2", y, width, 3, stride);
  y = net.Add(prefix + "relu2", Relu{}, {net.Add(prefix + "bn2", BatchNorm{}, {y})});
  y = AddConvolution(net, prefix + "conv3", y, kExpansion * width, 1, 1);
  y = net.Add(prefix + "bn3", BatchNorm{}, {y});
  return net.Add(prefix + "add", Add{}, {y, shortcut});
}

}  // namespace

Graph SegmentedResNet(const std::array<int64_t, 4>& blocks, int64_t batch) {
  Graph net({.name = "segmented_resnet", .batch = batch});
  std::string x = AddConvolution(net, "conv1", net.Input({3, 224, 224}), 64, 7, 2);
  x = net.Add("relu", Relu{}, {x});
  x = net.Add("maxpool", MaxPool{.kernel = 3, .stride = 2, .padding = 1}, {x});
  int64_t width = 64;
  for (size_t stage = 0; stage < blocks.size(); ++stage, width *= 2) {
    for (int64_t i = 0; i < blocks[stage]; ++i) {
      const int64_t stride = i == 0 && stage > 0 ? 2 : 1;
      x = AddBottleneck(net, absl::StrCat("layer", stage + 1, ".", i, "."), x, width, stride,
                        i == 0);
    }
  }
  x = net.Add("relu_end", Relu{}, {x});
  x = net.Add("avgpool", GlobalAveragePool{}, {x});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 1000}, {x}), SoftmaxCrossEntropy{});
  return net;
}

}  // namespace neap::apps

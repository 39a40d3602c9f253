#include "neap/nets/segmentation/unet.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/convolution.h"
#include "neap/layers/join.h"
#include "neap/layers/pooling.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/layers/transposed_convolution.h"

namespace neap::nets {
namespace {

constexpr int kLevels = 4;  // below the first

// An nn.Sequential of two 3x3 convolutions, each followed by an optional batch norm and a ReLU.
std::string AddDoubleConvolution(Graph& net, const std::string& prefix, int64_t out_channels,
                                 bool batch_norm, std::string x) {
  int index = 0;
  const auto add = [&](Layer layer) {
    x = net.Add(absl::StrCat(prefix, ".double_conv.", index++), std::move(layer), {x});
  };
  for (int i = 0; i < 2; ++i) {
    add(Convolution{.out_channels = out_channels, .kernel = 3, .padding = 1, .bias = !batch_norm});
    if (batch_norm) add(BatchNorm{});
    add(Relu{});
  }
  return x;
}

}  // namespace

Graph UNet(const UNetOptions& options) {
  Graph net({.name = options.batch_norm ? "unet-bn" : "unet",
             .batch = options.batch,
             .dtype = options.dtype,
             .layout = options.layout});
  const auto add_double = [&](const std::string& prefix, int level, std::string x) {
    return AddDoubleConvolution(net, prefix, options.width << level, options.batch_norm,
                                std::move(x));
  };
  std::string x = net.Input({options.channels, options.image, options.image});
  x = add_double("inc", 0, x);
  std::vector<std::string> levels = {x};
  for (int level = 1; level <= kLevels; ++level) {
    const std::string prefix = absl::StrCat("down", level, ".maxpool_conv.");
    x = net.Add(prefix + "0", MaxPool{}, {x});
    x = add_double(prefix + "1", level, x);
    levels.push_back(x);
  }
  for (int level = kLevels - 1; level >= 0; --level) {
    const std::string prefix = absl::StrCat("up", kLevels - level, ".");
    const TransposedConvolution enlarge = {
        .out_channels = options.width << level, .kernel = 2, .stride = 2};
    x = net.Add(prefix + "up", enlarge, {x});
    x = net.Add(prefix + "cat", Concat{}, {levels[static_cast<size_t>(level)], x});
    x = add_double(prefix + "conv", level, x);
  }
  x = net.Add("outc.conv", Convolution{.out_channels = options.classes}, {x});
  net.PixelLoss(x, SoftmaxCrossEntropy{}, {options.image, options.image});
  return net;
}

}  // namespace neap::nets

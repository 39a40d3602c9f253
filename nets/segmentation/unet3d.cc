#include "neap/nets/segmentation/unet3d.h"

#include <cstddef>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/layers/activation.h"
#include "neap/layers/convolution.h"
#include "neap/layers/join.h"
#include "neap/layers/loss/dice_loss.h"
#include "neap/layers/norm/group_norm.h"
#include "neap/layers/transposed_convolution.h"

namespace neap::nets {
namespace {

constexpr int64_t kFeatures[] = {32, 64, 128, 256, 320, 320};  // by resolution

// A conv1 and a conv2, nn.Sequentials of a convolution, a norm and a ReLU.
std::string AddVolumeBlock(Graph& net, const std::string& prefix, int64_t features, int64_t stride,
                           std::string x) {
  for (int i = 1; i <= 2; ++i) {
    const std::string name = absl::StrCat(prefix, ".conv", i, ".");
    const Convolution convolution = {.out_channels = features,
                                     .kernel = 3,
                                     .stride = i == 1 ? stride : 1,
                                     .padding = 1,
                                     .bias = false};
    x = net.Add(name + "0", convolution, {x});
    x = net.Add(name + "1", InstanceNorm{.affine = true}, {x});
    x = net.Add(name + "2", Relu{}, {x});
  }
  return x;
}

}  // namespace

Graph UNet3d(const UNet3dOptions& options) {
  Graph net(
      {.name = "unet3d", .batch = options.batch, .dtype = options.dtype, .layout = options.layout});
  const int64_t edge = options.image;
  constexpr size_t kLowest = std::size(kFeatures) - 1;
  std::string x = net.Input({options.channels, edge, edge, edge});
  x = AddVolumeBlock(net, "input_block", kFeatures[0], 1, x);
  std::vector<std::string> outputs = {x};
  for (size_t i = 1; i <= kLowest; ++i) {
    const std::string prefix = i < kLowest ? absl::StrCat("downsample.", i - 1) : "bottleneck";
    x = AddVolumeBlock(net, prefix, kFeatures[i], 2, x);
    outputs.push_back(x);
  }
  for (size_t i = kLowest; i-- > 0;) {
    const std::string prefix = absl::StrCat("upsample.", kLowest - 1 - i);
    const TransposedConvolution enlarge = {.out_channels = kFeatures[i], .kernel = 2, .stride = 2};
    x = net.Add(prefix + ".upsample_conv.0", enlarge, {x});
    x = net.Add(prefix + ".cat", Concat{}, {x, outputs[i]});
    x = AddVolumeBlock(net, prefix, kFeatures[i], 1, x);
  }
  x = net.Add("output.conv", Convolution{.out_channels = options.classes}, {x});
  const DiceLoss loss = {.background = false, .smooth = 1e-6F, .cross_entropy = 1, .weight = 0.5F};
  net.PixelLoss(x, loss, {edge, edge, edge});
  return net;
}

}  // namespace neap::nets

#include "neap/nets/residual/resnet.h"

#include <numeric>
#include <string>

#include "absl/strings/str_cat.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/pooling.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/nets/residual/residual_trunk.h"

namespace neap::nets {
namespace {

void AddFc(Graph& net, int64_t classes, std::string x) {
  x = net.Add("avgpool", GlobalAveragePool{}, {x});
  x = net.Add("fc", FullyConnected{.out_features = classes}, {x});
  net.Loss(x, SoftmaxCrossEntropy{});
}

std::string NameOf(const ResNetOptions& options) {
  const int64_t blocks = std::accumulate(options.blocks.begin(), options.blocks.end(), int64_t{0});
  const int64_t depth = 2 + blocks * (options.bottleneck ? 3 : 2);
  if (options.groups > 1)
    return absl::StrCat("resnext", depth, "_", options.groups, "x", options.width_per_group, "d");
  if (options.width_per_group == kPlainGroupWidth) return absl::StrCat("resnet", depth);
  return absl::StrCat("wide_resnet", depth, "_", options.width_per_group / kPlainGroupWidth);
}

}  // namespace

Graph ResNet(const ResNetOptions& options) {
  Graph net({.name = NameOf(options),
             .batch = options.batch,
             .dtype = options.dtype,
             .layout = options.layout});
  const std::string x = net.Input({options.channels, options.image, options.image});
  AddFc(net, options.classes, AddResNetStages(net, options, "", x).back().name);
  return net;
}

ResNetOptions ResNetOfDepth(int64_t depth) {
  ResNetOptions options = {.blocks = kDeepBlocks};
  options.blocks[2] = (depth - 2) / 3 - kDeepBlocks[0] - kDeepBlocks[1] - kDeepBlocks[3];
  return options;
}

Graph CifarResNet(const CifarResNetOptions& options) {
  Graph net({.name = absl::StrCat("resnet", 6 * options.n + 2),
             .batch = options.batch,
             .dtype = options.dtype,
             .layout = options.layout});
  std::string x = net.Input({options.channels, options.image, options.image});
  x = AddResidualStem(net, "", ResidualConvolution(3, options.width), x);

  ResidualTrunk trunk(net, x, options.width, options.dropped);
  for (int stage = 0; stage < 3; ++stage) {
    trunk.AddStage({.name = absl::StrCat("layer", stage + 1),
                    .blocks = options.n,
                    .width = options.width << stage,
                    .stride = stage == 0 ? 1 : 2});
  }
  AddFc(net, options.classes, trunk.output());
  return net;
}

}  // namespace neap::nets

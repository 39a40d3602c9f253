#include "neap/nets/segmentation/dilated_resnet.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/layers/convolution.h"
#include "neap/layers/dropout.h"
#include "neap/layers/resize/resize.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/nets/residual/residual_trunk.h"
#include "neap/nets/segmentation/atrous_pyramid.h"
#include "neap/nets/segmentation/sequential_unit.h"

namespace neap::nets {
namespace {

constexpr int64_t kDilatedStride = 8;  // of the maps that heads read, in pixels
constexpr float kAuxiliaryWeight = 0.5F;

// torchvision's FCNHead: the scores of the classes at an eighth of the size.
std::string AddFcnHead(Graph& net, const std::string& prefix, int64_t classes,
                       const StageOutput& map) {
  const Convolution first = {
      .out_channels = map.channels / 4, .kernel = 3, .padding = 1, .bias = false};
  std::string x = AddSequentialUnit(net, prefix, 0, first, map.name);
  x = net.Add(prefix + "3", Dropout{.probability = 0.1F}, {x});
  return net.Add(prefix + "4", Convolution{.out_channels = classes}, {x});
}

// torchvision's DeepLabHead.
std::string AddDeepLabHead(Graph& net, const DilatedResNetOptions& options,
                           const StageOutput& map) {
  const AtrousPyramid pyramid = {.size = options.image / map.stride};
  std::string x = AddAtrousPyramid(net, "classifier.0.", pyramid, map.channels, map.name);
  const Convolution mixing = {
      .out_channels = pyramid.out_channels, .kernel = 3, .padding = 1, .bias = false};
  x = AddSequentialUnit(net, "classifier.", 1, mixing, x);
  return net.Add("classifier.4", Convolution{.out_channels = options.classes}, {x});
}

// Scores as large as the image.
std::string AddEnlargedScores(Graph& net, const std::string& name, const std::string& scores) {
  const Resize bilinear = {.scales = {static_cast<double>(kDilatedStride)},
                           .mode = Resize::Mode::kLinear};
  return net.Add(name, bilinear, {scores});
}

// `add_head(net, map)` returns the scores of the classes.
template <typename AddHead>
Graph DilatedResNet(const char* head, const DilatedResNetOptions& options,
                    const AddHead& add_head) {
  Graph net({.name = absl::StrCat(head, "_", std::string(options.backbone.name)),
             .batch = options.batch,
             .dtype = options.dtype,
             .layout = options.layout});
  const std::string image = net.Input({options.channels, options.image, options.image});
  const ResNetOptions backbone = {.blocks = options.backbone.blocks,
                                  .bottleneck = options.backbone.bottleneck};
  const ResNetStages maps = AddResNetStages(net, backbone, "backbone.", image,
                                            {.output_stride = kDilatedStride, .lags = true});
  const std::string out = AddEnlargedScores(net, "out", add_head(net, maps[4]));
  net.PixelLoss(out, SoftmaxCrossEntropy{}, {options.image, options.image});
  if (options.aux_logits) {
    const std::string aux = AddFcnHead(net, "aux_classifier.", options.classes, maps[3]);
    net.AuxiliaryLoss(AddEnlargedScores(net, "aux", aux),
                      SoftmaxCrossEntropy{.weight = kAuxiliaryWeight});
  }
  return net;
}

}  // namespace

Graph DeepLabV3(const DilatedResNetOptions& options) {
  return DilatedResNet("deeplabv3", options, [&](Graph& net, const StageOutput& map) {
    return AddDeepLabHead(net, options, map);
  });
}

Graph FcnResNet(const DilatedResNetOptions& options) {
  return DilatedResNet("fcn", options, [&](Graph& net, const StageOutput& map) {
    return AddFcnHead(net, "classifier.", options.classes, map);
  });
}

}  // namespace neap::nets

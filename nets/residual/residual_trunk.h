// The residual blocks on top of a stem, and the stages of a ResNet that other networks read: an
// encoder (nets/segmentation).
//
//   ResNetStages stages = AddResNetStages(net, {.blocks = {3, 4, 23, 3}}, "encoder.", image);
//   std::string x = net.Add("head", Convolution{.out_channels = 21}, {stages[4].name});
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "neap/core/graph/graph.h"
#include "neap/layers/convolution.h"
#include "neap/nets/residual/resnet.h"

namespace neap::nets {

// The maps of a group in the first stage of a ResNet that is neither wide nor grouped, if the stem
// has 64 maps.
inline constexpr int64_t kPlainGroupWidth = 64;

// A convolution without bias, because batch norm would subtract it, whose padding keeps the size;
// it begins as torchvision's (kHeFanOut).
Convolution ResidualConvolution(int64_t size, int64_t out_channels, int64_t stride = 1,
                                int64_t groups = 1, int64_t dilation = 1);

struct ResidualStage {
  std::string name;  // block 0 has layers NAME.0.conv1 ...
  int64_t blocks = 0;
  int64_t width = 0;
  int64_t stride = 1;  // of the first block
  bool bottleneck = false;
  int64_t inner_width = 0;     // of a bottleneck's first two convolutions
  int64_t groups = 1;          // of its second one
  int64_t dilation = 1;        // of 3x3 convolutions
  int64_t first_dilation = 1;  // of those of the first block
};

class ResidualTrunk {
 public:
  // `dropped` has indices of blocks (ResNetOptions).
  ResidualTrunk(Graph& net, std::string x, int64_t channels, std::vector<int64_t> dropped = {})
      : net_(net), x_(std::move(x)), channels_(channels), dropped_(std::move(dropped)) {}

  const std::string& output() const { return x_; }
  int64_t channels() const { return channels_; }
  void AddStage(const ResidualStage& stage);

 private:
  void AddBlock(const ResidualStage& stage, const std::string& prefix, int64_t stride,
                int64_t dilation);
  void KeepShortcut(const std::string& prefix, int64_t out_channels, int64_t stride);
  std::string AddShortcut(const std::string& prefix, int64_t out_channels, int64_t stride);
  std::string AddUnit(const std::string& prefix, int index, const Convolution& convolution,
                      std::string x);

  Graph& net_;
  std::string x_;
  int64_t channels_;
  std::vector<int64_t> dropped_;
  int64_t block_ = 0;  // index of the next block
};

// A convolution, a batch norm and a ReLU: PREFIXconv1, PREFIXbn1, PREFIXrelu.
std::string AddResidualStem(Graph& net, const std::string& prefix, const Convolution& convolution,
                            std::string x);

// The output of a stage.
struct StageOutput {
  std::string name;
  int64_t channels = 0;
  int64_t stride = 1;  // of its positions, in pixels
};
using ResNetStages = std::array<StageOutput, 5>;  // the stem, layer1 ... layer4

// How the last stages of an encoder keep the resolution: they have dilations instead of strides.
struct StageDilation {
  int64_t output_stride = 32;  // of layer4; 16 or 8 otherwise
  // torchvision's first block of such a stage still has the dilation of the stage before;
  // segmentation_models_pytorch's has that of its own stage.
  bool lags = false;
};

// The layers of ResNet(options) but for its average pooling, classifier and loss, each with the
// prefix before its name; of the options, the ones of layers count.
ResNetStages AddResNetStages(Graph& net, const ResNetOptions& options, const std::string& prefix,
                             const std::string& x, const StageDilation& dilation = {});

}  // namespace neap::nets

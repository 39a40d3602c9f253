#include "neap/nets/segmentation/nnunet.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/layers/activation.h"
#include "neap/layers/convolution.h"
#include "neap/layers/join.h"
#include "neap/layers/loss/dice_loss.h"
#include "neap/layers/norm/group_norm.h"
#include "neap/layers/pooling.h"
#include "neap/layers/transposed_convolution.h"

namespace neap::nets {
namespace {

constexpr InitialWeights kHeFanIn = {.weight = InitialWeights::Rule::kHeFanIn, .zero_bias = true};
constexpr float kSlope = 0.01F;         // of the leaky ReLUs
constexpr float kLowestWeight = 1e-6F;  // of the lowest head's loss

// Half a kernel less one, along each axis: a convolution of stride 1 keeps the size.
Extents PaddingOf(const Extents& kernel, int axes) {
  std::vector<int64_t> padding;
  for (int axis = 0; axis < axes; ++axis) padding.push_back((kernel[axis] - 1) / 2);
  return Extents::Of(padding);
}

class NnUNetBuilder {
 public:
  explicit NnUNetBuilder(const NnUNetOptions& options)
      : options_(options), axes_(static_cast<int>(options.patch.size())), net_(options.graph) {}

  Graph Build() {
    std::vector<int64_t> image = {options_.channels};
    image.insert(image.end(), options_.patch.begin(), options_.patch.end());
    AddEncoder(net_.Input(Shape(Shape::Dims(image.begin(), image.end()))));
    AddDecoder();
    AddLosses();
    return std::move(net_);
  }

 private:
  // A ConvDropoutNormReLU.
  std::string AddUnit(const std::string& prefix, int64_t features, const Extents& kernel,
                      const Extents& stride, std::string x, bool activates = true,
                      bool bias = true) {
    const Convolution convolution = {.out_channels = features,
                                     .kernel = kernel,
                                     .stride = stride,
                                     .padding = PaddingOf(kernel, axes_),
                                     .bias = bias,
                                     .init = kHeFanIn};
    x = net_.Add(prefix + "conv", convolution, {x});
    x = net_.Add(prefix + "norm", InstanceNorm{.affine = true}, {x});
    return activates ? net_.Add(prefix + "nonlin", LeakyRelu{kSlope}, {x}) : x;
  }

  // Convolutions, the first one of which has the stride.
  std::string AddStack(const std::string& prefix, int64_t count, const NnUNetStage& stage,
                       const Extents& stride, std::string x) {
    for (int64_t i = 0; i < count; ++i) {
      x = AddUnit(absl::StrCat(prefix, "convs.", i, "."), stage.features, stage.kernel,
                  i == 0 ? stride : 1, x);
    }
    return x;
  }

  std::string AddResidualBlock(const std::string& prefix, const NnUNetStage& stage, bool is_first,
                               int64_t in_features, const std::string& x) {
    const Extents stride = is_first ? stage.stride : 1;
    std::string y = AddUnit(prefix + "conv1.", stage.features, stage.kernel, stride, x);
    y = AddUnit(prefix + "conv2.", stage.features, stage.kernel, 1, y, /*activates=*/false);
    std::string skip = x;
    int part = 0;  // of the nn.Sequential
    const Extents along = stride.Along(axes_);
    if (!along.AllAre(1)) {
      skip = net_.Add(absl::StrCat(prefix, "skip.", part++),
                      AveragePool{.kernel = along, .stride = along}, {skip});
    }
    if (in_features != stage.features) {
      skip = AddUnit(absl::StrCat(prefix, "skip.", part, "."), stage.features, 1, 1, skip,
                     /*activates=*/false, /*bias=*/false);
    }
    const std::string sum = net_.Add(prefix + "add", Add{}, {y, skip});
    return net_.Add(prefix + "nonlin2", LeakyRelu{kSlope}, {sum});
  }

  void AddEncoder(std::string x) {
    const std::vector<NnUNetStage>& stages = options_.stages;
    int64_t features = stages.front().features;
    if (options_.residual) x = AddStack("encoder.stem.", 1, stages.front(), 1, x);
    for (size_t s = 0; s < stages.size(); ++s) {
      const std::string prefix = absl::StrCat("encoder.stages.", s, ".");
      if (!options_.residual) {
        x = AddStack(prefix + "0.", stages[s].blocks, stages[s], stages[s].stride, x);
      }
      for (int64_t b = 0; options_.residual && b < stages[s].blocks; ++b) {
        x = AddResidualBlock(absl::StrCat(prefix, "blocks.", b, "."), stages[s], b == 0, features,
                             x);
        features = stages[s].features;
      }
      encoded_.push_back(x);
    }
  }

  // Its stages are numbered from the lowest resolution.
  void AddDecoder() {
    const std::vector<NnUNetStage>& stages = options_.stages;
    std::string x = encoded_.back();
    for (size_t k = 0; k + 1 < stages.size(); ++k) {
      const size_t to = stages.size() - 2 - k;
      const Extents& stride = stages[to + 1].stride;
      const TransposedConvolution enlarge = {.out_channels = stages[to].features,
                                             .kernel = stride,
                                             .stride = stride,
                                             .init = kHeFanIn};
      x = net_.Add(absl::StrCat("decoder.transpconvs.", k), enlarge, {x});
      x = net_.Add(absl::StrCat("decoder.cat.", k), Concat{}, {x, encoded_[to]});
      x = AddStack(absl::StrCat("decoder.stages.", k, "."), stages[to].decoder_blocks, stages[to],
                   1, x);
      const bool is_highest = to == 0;
      const bool is_left_out = k == 0 && !options_.lowest_head;
      if (!is_highest && (is_left_out || !options_.deep_supervision)) continue;
      const Convolution head = {.out_channels = options_.classes, .init = kHeFanIn};
      heads_.push_back(net_.Add(absl::StrCat("decoder.seg_layers.", k), head, {x}));
    }
    std::reverse(heads_.begin(), heads_.end());
  }

  void AddLosses() {
    std::vector<float> weights;
    for (size_t i = 0; i < heads_.size(); ++i)
      weights.push_back(1.0F / static_cast<float>(int64_t{1} << std::min<size_t>(i, 62)));
    if (weights.size() > 1 && options_.lowest_head) weights.back() = kLowestWeight;
    const float sum = std::accumulate(weights.begin(), weights.end(), 0.0F);
    DiceLoss loss = NnUNetLoss();
    loss.batch = options_.batch_dice;
    for (size_t i = 0; i < heads_.size(); ++i) {
      loss.weight = weights[i] / sum;
      if (i > 0) {
        net_.AuxiliaryLoss(heads_[i], loss);
      } else {
        net_.PixelLoss(heads_[i], loss,
                       Shape(Shape::Dims(options_.patch.begin(), options_.patch.end())));
      }
    }
  }

  const NnUNetOptions& options_;
  const int axes_;
  Graph net_;
  std::vector<std::string> encoded_;  // by each stage
  std::vector<std::string> heads_;    // from the highest resolution
};

NnUNetOptions Planned(std::string name, int axes, int64_t edge, int64_t batch) {
  constexpr int64_t kLeast = 4;  // positions along an axis
  NnUNetOptions options = {.graph = {.name = std::move(name), .batch = batch},
                           .patch = std::vector<int64_t>(static_cast<size_t>(axes), edge)};
  const int64_t most = axes == 3 ? 320 : 512;
  int64_t features = 32;
  for (int64_t size = edge;; size = (size + 1) / 2) {
    options.stages.push_back(
        {.features = std::min(features, most), .stride = options.stages.empty() ? 1 : 2});
    features = std::min(2 * features, most);
    if (size < 2 * kLeast) return options;
  }
}

}  // namespace

NnUNetOptions NnUNet3d(int64_t edge) { return Planned("nnunet3d", 3, edge, 2); }

NnUNetOptions NnUNet2d(int64_t edge) {
  NnUNetOptions options = Planned("nnunet2d", 2, edge, 12);
  options.batch_dice = true;
  return options;
}

NnUNetOptions ResEncUNet3d(int64_t edge) {
  constexpr int64_t kBlocks[] = {1, 3, 4, 6};  // 6 in all further stages
  NnUNetOptions options = Planned("resenc-unet", 3, edge, 2);
  options.residual = true;
  for (size_t s = 0; s < options.stages.size(); ++s) {
    options.stages[s].blocks = kBlocks[std::min(s, std::size(kBlocks) - 1)];
    options.stages[s].decoder_blocks = 1;
  }
  return options;
}

Graph NnUNet(const NnUNetOptions& options) { return NnUNetBuilder(options).Build(); }

}  // namespace neap::nets

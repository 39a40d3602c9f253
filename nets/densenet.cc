#include "neap/nets/densenet.h"

#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/join.h"
#include "neap/layers/pooling.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/nets/initial_values.h"

namespace neap::nets {
namespace {

// A bottleneck has this multiple of the maps that its layer adds.
constexpr int64_t kBottleneckWidth = 4;

// torchvision's: He's of the inputs.
constexpr InitRules kInitialValues = {
    .convolution = InitialWeights{.weight = InitialWeights::Rule::kHeFanIn},
    .linear = InitialWeights{.zero_bias = true}};

// The convolution has no bias; batch norm and ReLU come before it.
constexpr Convolution DenseConv(int64_t size, int64_t out_channels) {
  return {.out_channels = out_channels, .kernel = size, .padding = size / 2, .bias = false};
}

// The dense blocks on top of a stem, with the transitions between them.
class DenseTrunk {
 public:
  struct Growth {
    int64_t rate = 0;
    bool bottleneck = true;
    double compression = 1;
  };
  DenseTrunk(Graph& net, const Growth& growth, std::string x, int64_t channels)
      : net_(net), growth_(growth), x_(std::move(x)), channels_(channels) {}

  const std::string& output() const { return x_; }

  void AddBlock(int64_t layers) {
    if (blocks_ > 0) AddTransition();
    ++blocks_;
    const std::string block = absl::StrCat("features.denseblock", blocks_, ".");
    std::vector<std::string> outputs = {x_};
    for (int64_t i = 1; i <= layers; ++i) {
      const std::string prefix = absl::StrCat(block, "denselayer", i, ".");
      const std::string x =
          outputs.size() == 1 ? x_ : net_.Add(prefix + "cat", Concat{}, {outputs});
      outputs.push_back(AddLayer(prefix, x));
    }
    channels_ += layers * growth_.rate;
    x_ = net_.Add(block + "cat", Concat{}, std::move(outputs));
  }

  void AddFinalNorm() {
    x_ = net_.Add(absl::StrCat("features.norm", blocks_ + 1), BatchNorm{}, {x_});
    x_ = net_.Add("relu", Relu{}, {x_});
  }

 private:
  std::string AddLayer(const std::string& prefix, std::string x) {
    if (!growth_.bottleneck) return AddUnit(prefix, "1", DenseConv(3, growth_.rate), x);
    x = AddUnit(prefix, "1", DenseConv(1, kBottleneckWidth * growth_.rate), x);
    return AddUnit(prefix, "2", DenseConv(3, growth_.rate), x);
  }

  std::string AddUnit(const std::string& prefix, const char* index, const Convolution& convolution,
                      std::string x) {
    x = net_.Add(absl::StrCat(prefix, "norm", index), BatchNorm{}, {x});
    x = net_.Add(absl::StrCat(prefix, "relu", index), Relu{}, {x});
    return net_.Add(absl::StrCat(prefix, "conv", index), convolution, {x});
  }

  void AddTransition() {
    channels_ = static_cast<int64_t>(static_cast<double>(channels_) * growth_.compression);
    const std::string prefix = absl::StrCat("features.transition", blocks_, ".");
    x_ = AddUnit(prefix, "", DenseConv(1, channels_), x_);
    x_ = net_.Add(prefix + "pool", AveragePool{}, {x_});
  }

  Graph& net_;
  Growth growth_;
  std::string x_;
  int64_t channels_;
  int blocks_ = 0;
};

void AddClassifier(Graph& net, int64_t classes, std::string x) {
  x = net.Add("avgpool", GlobalAveragePool{}, {x});
  x = net.Add("classifier", FullyConnected{.out_features = classes}, {x});
  net.Loss(x, SoftmaxCrossEntropy{});
}

}  // namespace

std::array<int64_t, 4> DenseNetBlocks(int64_t depth) {
  struct Known {
    int64_t both, third;  // layers of the last two blocks, and of the first of these
  };
  constexpr std::array<int64_t, 2> kFirst = {6, 12};
  constexpr std::array<Known, 5> kPublished = {{{0, 0}, {40, 24}, {64, 32}, {80, 48}, {112, 64}}};
  const int64_t both = (depth - 5) / 2 - kFirst[0] - kFirst[1];
  size_t next = 1;
  while (next + 1 < kPublished.size() && kPublished[next].both < both) ++next;
  const bool is_above = both > kPublished.back().both;
  const Known from = is_above ? Known{} : kPublished[next - 1];
  const Known to = kPublished[next];
  const int64_t third =
      from.third + (both - from.both) * (to.third - from.third) / (to.both - from.both);
  return {kFirst[0], kFirst[1], third, both - third};
}

Graph DenseNet(const DenseNetOptions& options) {
  const int64_t layers = std::accumulate(options.blocks.begin(), options.blocks.end(), int64_t{0});
  const int64_t depth = options.blocks == kDenseNet264 ? 264 : 5 + 2 * layers;
  Graph net({.name = absl::StrCat("densenet", depth),
             .batch = options.batch,
             .dtype = options.dtype,
             .layout = options.layout});
  std::string x = net.Input({options.channels, options.image, options.image});
  x = net.Add(
      "features.conv0",
      Convolution{
          .out_channels = options.stem, .kernel = 7, .stride = 2, .padding = 3, .bias = false},
      {x});
  x = net.Add("features.norm0", BatchNorm{}, {x});
  x = net.Add("features.relu0", Relu{}, {x});
  x = net.Add("features.pool0", MaxPool{.kernel = 3, .stride = 2, .padding = 1}, {x});

  DenseTrunk trunk(net, {.rate = options.growth_rate, .compression = options.compression}, x,
                   options.stem);
  for (const int64_t block : options.blocks) trunk.AddBlock(block);
  trunk.AddFinalNorm();
  AddClassifier(net, options.classes, trunk.output());
  return WithInitialValues(net, kInitialValues);
}

Graph CifarDenseNet(const CifarDenseNetOptions& options) {
  Graph net({.name = absl::StrCat("densenet", options.depth),
             .batch = options.batch,
             .dtype = options.dtype,
             .layout = options.layout});
  const int64_t stem = options.bottleneck ? 2 * options.growth_rate : 16;
  std::string x = net.Input({options.channels, options.image, options.image});
  x = net.Add("features.conv0", DenseConv(3, stem), {x});

  DenseTrunk trunk(net,
                   {.rate = options.growth_rate,
                    .bottleneck = options.bottleneck,
                    .compression = options.compression},
                   x, stem);
  const int64_t layers = (options.depth - 4) / (options.bottleneck ? 6 : 3);
  for (int block = 0; block < 3; ++block) trunk.AddBlock(layers);
  trunk.AddFinalNorm();
  AddClassifier(net, options.classes, trunk.output());
  return WithInitialValues(net, kInitialValues);
}

}  // namespace neap::nets

#include "neap/nets/inception/googlenet.h"

#include <string>
#include <vector>

#include "neap/core/step/window.h"
#include "neap/layers/activation.h"
#include "neap/layers/convolution.h"
#include "neap/layers/dropout.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/join.h"
#include "neap/layers/pooling.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/nets/inception/inception_units.h"
#include "neap/nets/initial_values.h"

namespace neap::nets {
namespace {

using Unit = InceptionUnit;

constexpr float kGoogLeNetAuxiliaryWeight = 0.3F;
constexpr InitialWeights kNormal01 = {.weight = InitialWeights::Rule::kNormal, .scale = 0.01F};
constexpr MaxPool kHalving = {.kernel = 3, .stride = 2, .ceil_mode = true};

int64_t Halved(int64_t size) {
  return CeilPositions(size, kHalving.kernel.h(), kHalving.stride.h(), 0, 0);
}

// The channels of table 1 of the paper.
struct Channels {
  int64_t direct, reduced_3x3, of_3x3, reduced_5x5, of_5x5, of_pool;
};

class GoogLeNetTrunk {
 public:
  GoogLeNetTrunk(Graph& net, const GoogLeNetOptions& options)
      : net_(net),
        units_(net, "relu"),
        options_(options),
        x_(net.Input({options.channels, options.image, options.image})) {}

  const std::string& output() const { return x_; }

  // 224x224x3 to 28x28x192.
  void Stem() {
    x_ = units_.Add("conv1",
                    Convolution{.out_channels = 64, .kernel = 7, .stride = 2, .padding = 3}, x_);
    Pool("maxpool1", kHalving);
    x_ = units_.Add("conv2", Unit{64}, x_);
    x_ = units_.Add("conv3", Unit{192, 3}, x_);
    Pool("maxpool2", kHalving);
  }

  void Pool(const std::string& name, const MaxPool& pool) { x_ = net_.Add(name, pool, {x_}); }

  void Inception(const std::string& module, const Channels& c) {
    const std::string direct = units_.Add(module + ".branch1", Unit{c.direct}, x_);
    std::string of_3x3 = units_.Add(module + ".branch2.0", Unit{c.reduced_3x3}, x_);
    of_3x3 = units_.Add(module + ".branch2.1", Unit{c.of_3x3, 3}, of_3x3);
    std::string of_5x5 = units_.Add(module + ".branch3.0", Unit{c.reduced_5x5}, x_);
    of_5x5 = units_.Add(module + ".branch3.1", Unit{c.of_5x5, 3}, of_5x5);
    std::string pooled =
        net_.Add(module + ".branch4.0", MaxPool{.kernel = 3, .stride = 1, .padding = 1}, {x_});
    pooled = units_.Add(module + ".branch4.1", Unit{c.of_pool}, pooled);
    x_ = net_.Add(module + ".cat", Concat{}, {direct, of_3x3, of_5x5, pooled});
  }

  // Predictions of what the trunk has computed so far, of images a 16th as large.
  std::string AuxiliaryClassifier(const std::string& module) {
    const int64_t size =
        Halved(Halved(Halved(WindowPositions(options_.image, 7, /*stride=*/2, /*padding=*/3))));
    const int64_t stride = size / 4;
    std::string y = net_.Add(module + ".avgpool",
                             AveragePool{.kernel = size - 3 * stride, .stride = stride}, {x_});
    y = units_.Add(module + ".conv", Unit{128}, y);
    y = net_.Add(module + ".fc1", FullyConnected{.out_features = 1024}, {y});
    y = net_.Add(module + ".relu", Relu{}, {y});
    y = net_.Add(module + ".dropout", Dropout{.probability = options_.dropout_aux}, {y});
    return net_.Add(module + ".fc2", FullyConnected{.out_features = options_.classes}, {y});
  }

 private:
  Graph& net_;
  InceptionUnits units_;
  const GoogLeNetOptions& options_;
  std::string x_;
};

}  // namespace

Graph GoogLeNet(const GoogLeNetOptions& options) {
  Graph net({.name = "googlenet",
             .batch = options.batch,
             .dtype = options.dtype,
             .layout = options.layout});
  GoogLeNetTrunk trunk(net, options);
  std::vector<std::string> auxiliary;
  const auto classify = [&](const std::string& module) {
    if (options.aux_logits) auxiliary.push_back(trunk.AuxiliaryClassifier(module));
  };
  trunk.Stem();
  trunk.Inception("inception3a", {64, 96, 128, 16, 32, 32});
  trunk.Inception("inception3b", {128, 128, 192, 32, 96, 64});
  trunk.Pool("maxpool3", kHalving);
  trunk.Inception("inception4a", {192, 96, 208, 16, 48, 64});
  classify("aux1");
  trunk.Inception("inception4b", {160, 112, 224, 24, 64, 64});
  trunk.Inception("inception4c", {128, 128, 256, 24, 64, 64});
  trunk.Inception("inception4d", {112, 144, 288, 32, 64, 64});
  classify("aux2");
  trunk.Inception("inception4e", {256, 160, 320, 32, 128, 128});
  trunk.Pool("maxpool4", {.kernel = 2, .stride = 2, .ceil_mode = true});
  trunk.Inception("inception5a", {256, 160, 320, 32, 128, 128});
  trunk.Inception("inception5b", {384, 192, 384, 48, 128, 128});

  std::string x = net.Add("avgpool", GlobalAveragePool{}, {trunk.output()});
  x = net.Add("dropout", Dropout{.probability = options.dropout}, {x});
  x = net.Add("fc", FullyConnected{.out_features = options.classes}, {x});
  net.Loss(x, SoftmaxCrossEntropy{});
  for (const std::string& predictions : auxiliary)
    net.AuxiliaryLoss(predictions, SoftmaxCrossEntropy{.weight = kGoogLeNetAuxiliaryWeight});
  return WithInitialValues(net, {.convolution = kNormal01, .linear = kNormal01});
}

}  // namespace neap::nets

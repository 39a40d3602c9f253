#include "neap/nets/segmentation/fcn.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "neap/layers/activation.h"
#include "neap/layers/convolution.h"
#include "neap/layers/crop.h"
#include "neap/layers/dropout.h"
#include "neap/layers/join.h"
#include "neap/layers/pooling.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/layers/transposed_convolution.h"
#include "neap/nets/initial_values.h"
#include "neap/nets/vgg.h"

namespace neap::nets {
namespace {

constexpr int64_t kFirstPadding = 100;

// A layer's output, with its height and width, which crops need.
struct Map {
  std::string name;
  int64_t size = 0;
};

class Builder {
 public:
  Builder(Graph& net, const Fcn8sOptions& options) : net_(net), options_(options) {}

  void Build() {
    Map x = {net_.Input({options_.channels, options_.image, options_.image}), options_.image};
    Map pools[kVgg16.size()];
    for (size_t group = 0; group < kVgg16.size(); ++group) {
      x = pools[group] = AddGroup(group, x);
    }
    x = AddDense("6", 7, x);
    x = AddDense("7", 1, x);
    x = AddScore("score_fr", x);
    x = AddEnlarged("upscore2", 2, x);
    x = AddSkip("pool4", pools[3], 5, x);
    x = AddEnlarged("upscore_pool4", 2, x);
    x = AddSkip("pool3", pools[2], 9, x);
    x = AddEnlarged("upscore8", 8, x);
    x = AddCrop("score", options_.image, 31, x);
    net_.PixelLoss(x.name, SoftmaxCrossEntropy{}, {options_.image, options_.image});
  }

 private:
  Map AddConvolution(const std::string& name, const Convolution& convolution, const Map& x) {
    return {net_.Add(name, convolution, {x.name}),
            WindowPositions(x.size, convolution.kernel.h(), 1, convolution.padding.h())};
  }

  // VGG-16's convolutions between one pooling and the next, and the pooling.
  Map AddGroup(size_t group, Map x) {
    for (int64_t i = 1; i <= kVgg16[group]; ++i) {
      const std::string suffix = absl::StrCat(group + 1, "_", i);
      const int64_t padding = group == 0 && i == 1 ? kFirstPadding : 1;
      x = AddConvolution("conv" + suffix,
                         {.out_channels = kVggWidths[group], .kernel = 3, .padding = padding}, x);
      x.name = net_.Add("relu" + suffix, Relu{}, {x.name});
    }
    return {net_.Add(absl::StrCat("pool", group + 1), MaxPool{}, {x.name}),
            WindowPositions(x.size, 2, 2, 0)};
  }

  // A fully connected layer of VGG-16 as a convolution.
  Map AddDense(const std::string& suffix, int64_t kernel, Map x) {
    x = AddConvolution("fc" + suffix, {.out_channels = 4096, .kernel = kernel}, x);
    x.name = net_.Add("relu" + suffix, Relu{}, {x.name});
    x.name = net_.Add("drop" + suffix, Dropout{.probability = options_.dropout}, {x.name});
    return x;
  }

  Map AddScore(const std::string& name, const Map& x) {
    return AddConvolution(name, {.out_channels = options_.classes}, x);
  }

  Map AddEnlarged(const std::string& name, int64_t times, const Map& x) {
    const TransposedConvolution enlarge = {.out_channels = options_.classes,
                                           .kernel = 2 * times,
                                           .stride = times,
                                           .bias = false,
                                           .bilinear = true};
    return {net_.Add(name, enlarge, {x.name}), (x.size + 1) * times};
  }

  Map AddCrop(const std::string& name, int64_t size, int64_t offset, const Map& x) {
    return {net_.Add(name, Crop{.size = size, .offset = offset}, {x.name}), size};
  }

  // The scores of a pooling's output, cropped to x and added to it.
  Map AddSkip(const std::string& pool, const Map& output, int64_t offset, const Map& x) {
    const Map score = AddScore("score_" + pool, output);
    const Map cropped = AddCrop("score_" + pool + "c", x.size, offset, score);
    return {net_.Add("fuse_" + pool, Add{}, {x.name, cropped.name}), x.size};
  }

  Graph& net_;
  const Fcn8sOptions& options_;
};

}  // namespace

Graph Fcn8s(const Fcn8sOptions& options) {
  Graph net(
      {.name = "fcn8s", .batch = options.batch, .dtype = options.dtype, .layout = options.layout});
  Builder(net, options).Build();
  return WithInitialValues(net, {.convolution = kHeFanOut});
}

}  // namespace neap::nets

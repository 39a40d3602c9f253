#include "neap/nets/inception/inception_v3.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
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
using Shrink = ShrinkingUnit;

constexpr float kInceptionAuxiliaryWeight = 0.4F;
constexpr InitialWeights kNormal1 = {.weight = InitialWeights::Rule::kNormal, .scale = 0.1F};

// Adds torchvision's modules in sequence.
class InceptionV3Trunk {
 public:
  InceptionV3Trunk(Graph& net, std::string x) : net_(net), units_(net, "relu"), x_(std::move(x)) {}

  const std::string& output() const { return x_; }

  void Stem();
  void InceptionA(const std::string& module, int64_t pool_features);
  void InceptionB(const std::string& module);
  void InceptionC(const std::string& module, int64_t channels_7x7);
  void InceptionD(const std::string& module);
  void InceptionE(const std::string& module);
  // Predictions of what the trunk has computed so far.
  std::string AuxiliaryClassifier(const std::string& module, int64_t classes);

 private:
  template <typename AnyUnit>
  std::string Add(const std::string& name, const AnyUnit& unit, const std::string& x) const {
    return units_.Add(name, unit, x);
  }
  // Units called BRANCH_1, BRANCH_2, ...
  std::string Chain(const std::string& branch, const std::vector<Unit>& units) {
    std::string x = x_;
    for (size_t i = 0; i < units.size(); ++i)
      x = Add(absl::StrCat(branch, "_", i + 1), units[i], x);
    return x;
  }
  // Units followed by one that halves the image.
  std::string Chain(const std::string& branch, const std::vector<Unit>& units, const Shrink& last) {
    return Add(absl::StrCat(branch, "_", units.size() + 1), last, Chain(branch, units));
  }
  std::string AveragedBranch(const std::string& module, int64_t out_channels) {
    const AveragePool pool = {.kernel = 3, .stride = 1, .padding = 1};
    return Add(module + ".branch_pool", Unit{out_channels},
               net_.Add(module + ".avg_pool", pool, {x_}));
  }
  std::string HalvedBranch(const std::string& module) {
    return net_.Add(module + ".max_pool", MaxPool{.kernel = 3, .stride = 2}, {x_});
  }
  void Join(const std::string& module, std::vector<std::string> branches) {
    x_ = net_.Add(module + ".cat", Concat{}, std::move(branches));
  }

  Graph& net_;
  InceptionUnits units_;
  std::string x_;
};

// 299x299x3 to 35x35x192.
void InceptionV3Trunk::Stem() {
  x_ = Add("Conv2d_1a_3x3", Shrink{32, 2}, x_);
  x_ = Add("Conv2d_2a_3x3", Shrink{32}, x_);
  x_ = Add("Conv2d_2b_3x3", Unit{64, 3}, x_);
  x_ = net_.Add("maxpool1", MaxPool{.kernel = 3, .stride = 2}, {x_});
  x_ = Add("Conv2d_3b_1x1", Unit{80}, x_);
  x_ = Add("Conv2d_4a_3x3", Shrink{192}, x_);
  x_ = net_.Add("maxpool2", MaxPool{.kernel = 3, .stride = 2}, {x_});
}

// Figure 5.
void InceptionV3Trunk::InceptionA(const std::string& module, int64_t pool_features) {
  Join(module,
       {Add(module + ".branch1x1", Unit{64}, x_), Chain(module + ".branch5x5", {{48}, {64, 5}}),
        Chain(module + ".branch3x3dbl", {{64}, {96, 3}, {96, 3}}),
        AveragedBranch(module, pool_features)});
}

// 35x35 to 17x17.
void InceptionV3Trunk::InceptionB(const std::string& module) {
  Join(module,
       {Add(module + ".branch3x3", Shrink{384, 2}, x_),
        Chain(module + ".branch3x3dbl", {{64}, {96, 3}}, Shrink{96, 2}), HalvedBranch(module)});
}

// Figure 6.
void InceptionV3Trunk::InceptionC(const std::string& module, int64_t channels_7x7) {
  const int64_t c = channels_7x7;
  Join(module, {Add(module + ".branch1x1", Unit{192}, x_),
                Chain(module + ".branch7x7", {{c}, {c, {1, 7}}, {192, {7, 1}}}),
                Chain(module + ".branch7x7dbl",
                      {{c}, {c, {7, 1}}, {c, {1, 7}}, {c, {7, 1}}, {192, {1, 7}}}),
                AveragedBranch(module, 192)});
}

// 17x17 to 8x8.
void InceptionV3Trunk::InceptionD(const std::string& module) {
  Join(module,
       {Chain(module + ".branch3x3", {{192}}, Shrink{320, 2}),
        Chain(module + ".branch7x7x3", {{192}, {192, {1, 7}}, {192, {7, 1}}}, Shrink{192, 2}),
        HalvedBranch(module)});
}

// Figure 7.
void InceptionV3Trunk::InceptionE(const std::string& module) {
  const std::string branch1x1 = Add(module + ".branch1x1", Unit{320}, x_);
  const std::string branch3x3 = Chain(module + ".branch3x3", {{384}});
  const std::string branch3x3dbl = Chain(module + ".branch3x3dbl", {{448}, {384, 3}});
  Join(module, {branch1x1, Add(module + ".branch3x3_2a", Unit{384, {1, 3}}, branch3x3),
                Add(module + ".branch3x3_2b", Unit{384, {3, 1}}, branch3x3),
                Add(module + ".branch3x3dbl_3a", Unit{384, {1, 3}}, branch3x3dbl),
                Add(module + ".branch3x3dbl_3b", Unit{384, {3, 1}}, branch3x3dbl),
                AveragedBranch(module, 192)});
}

// Figure 8, with the pooling of section 6. 17x17x768 to 1x1.
std::string InceptionV3Trunk::AuxiliaryClassifier(const std::string& module, int64_t classes) {
  std::string y = net_.Add(module + ".pool", AveragePool{.kernel = 5, .stride = 3}, {x_});
  y = Add(module + ".conv0", Unit{128}, y);
  y = Add(module + ".conv1", Convolution{.out_channels = 768, .kernel = 5}, y);
  y = net_.Add(module + ".avgpool", GlobalAveragePool{}, {y});
  const InitialWeights init = {.weight = InitialWeights::Rule::kNormal, .scale = 0.001F};
  return net_.Add(module + ".fc", FullyConnected{.out_features = classes, .init = init}, {y});
}

}  // namespace

Graph InceptionV3(const InceptionV3Options& options) {
  Graph net({.name = "inception_v3",
             .batch = options.batch,
             .dtype = options.dtype,
             .layout = options.layout});
  InceptionV3Trunk trunk(net, net.Input({options.channels, options.image, options.image}));
  trunk.Stem();
  trunk.InceptionA("Mixed_5b", 32);
  trunk.InceptionA("Mixed_5c", 64);
  trunk.InceptionA("Mixed_5d", 64);
  trunk.InceptionB("Mixed_6a");
  trunk.InceptionC("Mixed_6b", 128);
  trunk.InceptionC("Mixed_6c", 160);
  trunk.InceptionC("Mixed_6d", 160);
  trunk.InceptionC("Mixed_6e", 192);
  std::string auxiliary;
  if (options.aux_logits) auxiliary = trunk.AuxiliaryClassifier("AuxLogits", options.classes);
  trunk.InceptionD("Mixed_7a");
  trunk.InceptionE("Mixed_7b");
  trunk.InceptionE("Mixed_7c");

  std::string x = net.Add("avgpool", GlobalAveragePool{}, {trunk.output()});
  x = net.Add("dropout", Dropout{.probability = options.dropout}, {x});
  x = net.Add("fc", FullyConnected{.out_features = options.classes}, {x});
  net.Loss(x, SoftmaxCrossEntropy{});
  if (options.aux_logits)
    net.AuxiliaryLoss(auxiliary, SoftmaxCrossEntropy{.weight = kInceptionAuxiliaryWeight});
  return WithInitialValues(net, {.convolution = kNormal1, .linear = kNormal1});
}

}  // namespace neap::nets

#include "neap/nets/inception/inception_v4.h"

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

namespace neap::nets {
namespace {

using Unit = InceptionUnit;
using Shrink = ShrinkingUnit;

// Adds the modules in sequence: features.0, features.1, ...
class Features {
 public:
  Features(Graph& net, std::string x) : net_(net), units_(net, "act"), x_(std::move(x)) {}

  const std::string& output() const { return x_; }

  void Stem();
  void InceptionA();
  void ReductionA();
  void InceptionB();
  void ReductionB();
  void InceptionC();

 private:
  std::string Name(const std::string& part) const {
    return absl::StrCat("features.", index_, ".", part);
  }

  template <typename AnyUnit>
  std::string Add(const std::string& name, const AnyUnit& unit, const std::string& x) const {
    return units_.Add(name, unit, x);
  }
  // An nn.Sequential of units on `x`, numbered from `first`.
  std::string Chain(const std::string& branch, const std::vector<Unit>& units, std::string x,
                    int first = 0) {
    for (const Unit& unit : units) x = Add(Name(absl::StrCat(branch, ".", first++)), unit, x);
    return x;
  }
  std::string Chain(const std::string& branch, const std::vector<Unit>& units) {
    return Chain(branch, units, x_);
  }
  // Units followed by one without padding.
  std::string Chain(const std::string& branch, const std::vector<Unit>& units, const Shrink& last) {
    return Add(Name(absl::StrCat(branch, ".", units.size())), last, Chain(branch, units));
  }
  std::string PooledBranch(int64_t out_channels) {
    const AveragePool pool = {.kernel = 3, .stride = 1, .padding = 1, .count_padding = false};
    return Chain("branch3", {{out_channels}}, net_.Add(Name("branch3.0"), pool, {x_}), 1);
  }
  std::string Pool(const std::string& name) {
    return net_.Add(Name(name), MaxPool{.kernel = 3, .stride = 2}, {x_});
  }
  void Join(std::vector<std::string> branches) {
    x_ = net_.Add(Name("cat"), Concat{}, std::move(branches));
    ++index_;
  }

  Graph& net_;
  InceptionUnits units_;
  std::string x_;
  int index_ = 0;  // the current module's
};

// Figure 3. 299x299x3 to 35x35x384.
void Features::Stem() {
  x_ = Add("features.0", Shrink{32, 2}, x_);
  x_ = Add("features.1", Shrink{32}, x_);
  x_ = Add("features.2", Unit{64, 3}, x_);
  index_ = 3;
  Join({Pool("maxpool"), Add(Name("conv"), Shrink{96, 2}, x_)});
  Join({Chain("branch0", {{64}}, Shrink{96}),
        Chain("branch1", {{64}, {64, {1, 7}}, {64, {7, 1}}}, Shrink{96})});
  Join({Add(Name("conv"), Shrink{192, 2}, x_), Pool("maxpool")});
}

// Figure 4.
void Features::InceptionA() {
  Join({Add(Name("branch0"), Unit{96}, x_), Chain("branch1", {{64}, {96, 3}}),
        Chain("branch2", {{64}, {96, 3}, {96, 3}}), PooledBranch(96)});
}

// Figure 7 with k, l, m, n = 192, 224, 256, 384: 35x35 to 17x17.
void Features::ReductionA() {
  Join({Add(Name("branch0"), Shrink{384, 2}, x_),
        Chain("branch1", {{192}, {224, 3}}, Shrink{256, 2}), Pool("branch2")});
}

// Figure 5.
void Features::InceptionB() {
  Join({Add(Name("branch0"), Unit{384}, x_),
        Chain("branch1", {{192}, {224, {1, 7}}, {256, {7, 1}}}),
        Chain("branch2", {{192}, {192, {7, 1}}, {224, {1, 7}}, {224, {7, 1}}, {256, {1, 7}}}),
        PooledBranch(128)});
}

// Figure 8: 17x17 to 8x8.
void Features::ReductionB() {
  Join({Chain("branch0", {{192}}, Shrink{192, 2}),
        Chain("branch1", {{256}, {256, {1, 7}}, {320, {7, 1}}}, Shrink{320, 2}), Pool("branch2")});
}

// Figure 6.
void Features::InceptionC() {
  const std::string branch0 = Add(Name("branch0"), Unit{256}, x_);
  const std::string branch1 = Add(Name("branch1_0"), Unit{384}, x_);
  std::string branch2 = Add(Name("branch2_0"), Unit{384}, x_);
  branch2 = Add(Name("branch2_1"), Unit{448, {3, 1}}, branch2);
  branch2 = Add(Name("branch2_2"), Unit{512, {1, 3}}, branch2);
  Join({branch0, Add(Name("branch1_1a"), Unit{256, {1, 3}}, branch1),
        Add(Name("branch1_1b"), Unit{256, {3, 1}}, branch1),
        Add(Name("branch2_3a"), Unit{256, {1, 3}}, branch2),
        Add(Name("branch2_3b"), Unit{256, {3, 1}}, branch2), PooledBranch(256)});
}

}  // namespace

Graph InceptionV4(const InceptionV4Options& options) {
  Graph net({.name = "inception_v4",
             .batch = options.batch,
             .dtype = options.dtype,
             .layout = options.layout});
  Features features(net, net.Input({options.channels, options.image, options.image}));
  features.Stem();
  for (int i = 0; i < 4; ++i) features.InceptionA();
  features.ReductionA();
  for (int i = 0; i < 7; ++i) features.InceptionB();
  features.ReductionB();
  for (int i = 0; i < 3; ++i) features.InceptionC();

  std::string x = net.Add("global_pool", GlobalAveragePool{}, {features.output()});
  x = net.Add("head_drop", Dropout{.probability = options.dropout}, {x});
  x = net.Add("last_linear", FullyConnected{.out_features = options.classes}, {x});
  net.Loss(x, SoftmaxCrossEntropy{});
  return net;
}

}  // namespace neap::nets

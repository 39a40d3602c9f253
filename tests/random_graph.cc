#include "tests/random_graph.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/layers/activation.h"
#include "neap/layers/attention/attention.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/convolution.h"
#include "neap/layers/dropout.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/join.h"
#include "neap/layers/loss/dice_loss.h"
#include "neap/layers/lrn.h"
#include "neap/layers/multiply.h"
#include "neap/layers/norm/softmax.h"
#include "neap/layers/pooling.h"
#include "neap/layers/scale_shift.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/layers/target_loss.h"
#include "tests/random_layers.h"
#include "tests/random_norms.h"

namespace neap::testing {
namespace {

constexpr int64_t kVector = 5;  // values of the second feed

struct Value {
  std::string name;
  int64_t channels = 0;
  int64_t size = 0;  // extent of each spatial axis
};

class Generator {
 public:
  Generator(uint32_t seed, const RandomGraphOptions& options)
      : choices_(seed),
        options_(options),
        net_({.name = absl::StrCat("random", seed),
              .batch = options.batch,
              .dtype = options.dtype,
              .layout = options.layout,
              .fusion = options.fusion}) {}

  Graph Build() {
    const int64_t image = options_.image;
    Shape::Dims dims(static_cast<size_t>(options_.axes) + 1, image);
    dims[0] = options_.channels;
    Value x = {net_.Input(Shape(std::move(dims))), options_.channels, image};
    const int blocks = static_cast<int>(Between(options_.min_blocks, options_.max_blocks));
    std::vector<Value> passed;
    if (options_.ports) net_.Input("vector", {kVector, 1, 1});
    for (int i = 0; i < blocks; ++i) {
      if (Chance(6)) x = SkipFromAfar(passed, x);
      if (options_.ports && Chance(2)) x = Gated(x);
      passed.push_back(x);
      x = Chance(3) && x.size >= 4 ? Shrink(x) : Block(x, 0);
    }
    if (options_.ports) x = Gated(x);
    Classify(x);
    if (options_.shares) ShareParams(choices_, net_);
    if (options_.auxiliary) AddAuxiliary(passed);
    if (options_.ports) AddSecondLoss(passed);
    return Chance(4) ? Shuffled(choices_, net_) : std::move(net_);
  }

 private:
  int64_t Between(int64_t low, int64_t high) { return choices_.Between(low, high); }
  bool Chance(int64_t one_in) { return choices_.Chance(one_in); }

  std::string Named(const char* kind) { return absl::StrCat(kind, ++count_); }
  // Adds a layer that keeps the shape.
  template <typename Definition>
  Value Same(const char* kind, Definition layer, const Value& x) {
    return {net_.Add(Named(kind), layer, {x.name}), x.channels, x.size};
  }

  template <typename Pool>
  Value Pooled(const Value& x) {
    const Window window = RandomWindow(choices_, options_.axes, 3, 1);
    return Same("pool", Pool{window.kernel, window.stride, window.padding}, x);
  }

  Value ImageNorm(const Value& x) {
    return Same("norm", ImageNormOf(count_, x.channels, x.size), x);
  }

  Value Normalised(const Value& x) {
    if (options_.image_norms && count_ % 2 == 0) return ImageNorm(x);
    return options_.batch_norm ? Same("bn", BatchNorm{}, x) : Same("tanh", Tanh{}, x);
  }

  // Elements, channels or images are dropped.
  Value Dropped(float probability, const Value& x) {
    if (!options_.dropout) return Same("tanh", Tanh{}, x);
    if (count_ % 3 == 0) return Same("dropout", StochasticDepth{.rate = probability}, x);
    return Same("dropout", Dropout{.probability = probability, .per_channel = count_ % 3 == 1}, x);
  }

  Value Block(const Value& x, int nesting) {
    if (options_.read_twice && nesting == 0 && Chance(2)) return Sum(x, nesting);
    if (options_.mobile && Chance(2)) return Inverted(x);
    if (options_.attention && Chance(4)) return Attended(x);
    if (nesting < options_.max_nesting && Chance(2))
      return Chance(2) ? Sum(x, nesting) : Join(x, nesting);
    switch (Between(0, 9)) {
      case 0:
        return Same("relu", Relu{}, x);
      case 1:
        return Same("sigmoid", Sigmoid{}, x);
      case 2:
        return options_.image_norms ? ImageNorm(x) : Same("tanh", Tanh{}, x);
      case 3:
        return Dropped(0.25F, x);
      case 4:
        return Same("lrn", LocalResponseNorm{.size = 3}, x);
      case 5:
        return Pooled<MaxPool>(x);
      case 6:
        return Normalised(x);
      default:
        return ConvBnRelu(x, Between(1, options_.max_channels));
    }
  }

  Value ConvBnRelu(const Value& x, int64_t channels) {
    Value y = Conv(x, channels);
    if (Chance(2)) y = Normalised(y);
    if (Chance(2)) y = Same("relu", Relu{}, y);
    return y;
  }
  Value Conv(const Value& x, int64_t channels) {
    Convolution layer = {.out_channels = channels, .bias = Chance(2)};
    if (Chance(2)) {
      const int64_t dilation = Between(1, 2);
      const Window window = RandomWindow(choices_, options_.axes, 3, dilation, dilation);
      layer.kernel = window.kernel;
      layer.padding = window.padding;
      layer.dilation = window.dilation;
    }
    if (x.channels % 2 == 0 && channels % 2 == 0 && Chance(3)) layer.groups = 2;
    return {net_.Add(Named("conv"), layer, {x.name}), channels, x.size};
  }

  // x attends to itself, all of it or causally along its last axis.
  Value Attended(const Value& x) {
    Attention layer = {.heads = x.channels % 2 == 0 ? 2 : 1, .causal = Chance(2)};
    if (layer.causal) layer.axes = 1;
    if (x.channels / layer.heads >= 2 && Chance(2)) layer.rotary_dims = 2;
    std::vector<std::string> inputs;
    if (Chance(2)) {
      inputs = {Conv(x, 3 * x.channels).name};
      const auto size = Extents(x.size).Along(static_cast<int>(options_.axes));
      if (layer.axes == 0 && count_ % 3 == 0) layer.window_bias = WindowBias{x.size, size, 0};
    } else {
      layer.kv_heads = 1;
      const int64_t shared = x.channels / layer.heads;
      inputs = {x.name, Conv(x, shared).name, Conv(x, 2 * shared).name};
    }
    const int64_t channels = inputs.size() == 1 ? x.channels : 2 * x.channels;
    return {net_.Add(Named("attention"), layer, std::move(inputs)), channels, x.size};
  }

  Value Activated(const Value& x) {
    const auto [kind, layer] = RandomActivation(choices_, x.channels);
    return Same(kind, layer, x);
  }

  Value Moved(const Value& x) {
    Value y = x;
    for (const auto& [kind, layer] : MovesOf(count_, options_.axes, x.size))
      y = Same(kind, layer, y);
    return y;
  }

  Value LayerScale(const Value& x) {
    const bool scales = count_ % 4 == 0, shifts = count_ % 3 == 0;
    return Same("layer_scale", ScaleShift{0.7F, 0.1F, scales || !shifts, shifts}, x);
  }

  // An inverted residual block, with or without each of its parts.
  Value Inverted(const Value& x) {
    Value y = Chance(3) ? x : Activated(Normalised(Conv(x, Between(1, options_.max_channels))));
    const int64_t padding = Between(0, 2);
    const Window window = RandomWindow(choices_, options_.axes, 2 * padding + 1, padding);
    const Convolution depthwise = {.out_channels = y.channels,
                                   .kernel = window.kernel,
                                   .padding = window.padding,
                                   .groups = y.channels,
                                   .bias = false};
    y = Activated(Normalised(Same("depthwise", depthwise, y)));
    if (Chance(2)) y = Weighted(y);
    y = Normalised(Conv(y, x.channels));
    if (count_ % 4 == 1) y = Moved(y);
    if (count_ % 5 == 0) y = Same("softmax", Softmax{count_ % 2 + 1, count_ % 3 == 0}, y);
    if (count_ % 2 == 0) y = LayerScale(y);
    if (options_.dropout && count_ % 3 == 0) y = Same("drop", StochasticDepth{.rate = 0.3F}, y);
    if (Chance(3)) return y;
    return {net_.Add(Named("add"), Add{}, {y.name, x.name}), x.channels, x.size};
  }

  // x times a gate that is computed from it, one for each channel or each element, or x plus such
  // numbers.
  Value Weighted(const Value& x) {
    Value y = x;
    if (Chance(2)) {
      y = {net_.Add(Named("squeeze"), GlobalAveragePool{}, {x.name}), x.channels, 1};
      y = Activated(Conv(y, Between(1, x.channels)));
    }
    y = Conv(y, x.channels);
    if (Chance(4)) return {net_.Add(Named("add"), Add{}, {x.name, y.name}), x.channels, x.size};
    y = Chance(2) ? Same("gate", Sigmoid{}, y) : Same("gate", HardSigmoid{}, y);
    return {net_.Add(Named("multiply"), Multiply{}, {x.name, y.name}), x.channels, x.size};
  }

  // Halves the extents.
  Value Shrink(const Value& x) {
    const int64_t size = (x.size - 2) / 2 + 1;
    switch (Between(0, 2)) {
      case 0:
        return {net_.Add(Named("pool"), MaxPool{}, {x.name}), x.channels, size};
      case 1:
        return {net_.Add(Named("pool"), AveragePool{}, {x.name}), x.channels, size};
      default: {
        const int64_t channels = Between(1, options_.max_channels);
        const Convolution layer = {.out_channels = channels, .kernel = 2, .stride = 2};
        return {net_.Add(Named("conv"), layer, {x.name}), channels, size};
      }
    }
  }

  Value Chain(Value x, int nesting, int64_t blocks) {
    for (int64_t i = 0; i < blocks; ++i) x = Block(x, nesting);
    return x;
  }
  Value WithChannels(const Value& x, int64_t channels) {
    return x.channels == channels ? x : Conv(x, channels);
  }

  // A sum of two or three branches, any of which may be empty: a residual block, or x + x.
  Value Sum(const Value& x, int nesting) {
    const int64_t branches = Between(2, 3);
    std::vector<std::string> names;
    int64_t channels = x.channels;
    for (int64_t i = 0; i < branches; ++i) {
      Value y = Chain(x, nesting + 1, Between(0, 3));
      if (i == 0) channels = y.channels;
      y = WithChannels(y, channels);
      if (options_.residual && y.name != x.name) y = Normalised(y);
      names.push_back(y.name);
    }
    Value sum = {net_.Add(Named("add"), Add{}, std::move(names)), channels, x.size};
    if (!options_.residual) return sum;
    if (!options_.read_twice || Chance(2)) sum = Same("relu", Relu{}, sum);
    if (options_.read_twice && !Chance(3)) return ReadTwice(sum);
    return Chance(3) ? sum : NextBlock(sum);
  }

  Value ReadTwice(const Value& x) {
    const auto both = [&](const char* kind, Layer join, const Value& a, const Value& b) -> Value {
      return {net_.Add(Named(kind), std::move(join), {a.name, b.name}), x.channels, x.size};
    };
    const auto mean = [&] { return Same("squeeze", GlobalAveragePool{}, x); };
    switch (Between(0, 6)) {
      case 0:
        return both("multiply", Multiply{}, x, mean());
      case 1:
        return both("multiply", Multiply{}, Conv(x, x.channels), mean());
      case 2:
        return both("multiply", Multiply{}, x, Conv(x, x.channels));
      case 3: {
        Value y = both("concat", Concat{}, x, Conv(x, x.channels));
        y.channels *= 2;
        return Conv(y, x.channels);
      }
      case 4:
        return both("add", Add{}, Pooled<MaxPool>(x), Pooled<AveragePool>(x));
      case 5:
        return both("add", Add{}, x, mean());
      default:
        return both("multiply", Multiply{}, both("multiply", Multiply{}, x, mean()), mean());
    }
  }

  // relu(x + bn(conv(x))): gradients of two readers meet in that of x.
  Value NextBlock(const Value& x) {
    const Value y = Normalised(Conv(x, x.channels));
    return Same("relu", Relu{},
                {net_.Add(Named("add"), Add{}, {y.name, x.name}), x.channels, x.size});
  }

  // A concatenation of two to four branches, at most one of them empty, since a concat must not
  // read an input twice.
  Value Join(const Value& x, int nesting) {
    const int64_t branches = Between(2, 4);
    const int64_t empty = Between(0, 2 * branches);
    std::vector<std::string> names;
    int64_t channels = 0;
    for (int64_t i = 0; i < branches; ++i) {
      const Value y = i == empty ? x : Chain(x, nesting + 1, Between(1, 3));
      names.push_back(y.name);
      channels += y.channels;
    }
    Value y = {net_.Add(Named("concat"), Concat{}, std::move(names)), channels, x.size};
    if (options_.dense) y = Normalised(y);
    if (options_.dense && Chance(2)) y = Same("relu", Relu{}, y);
    return channels > options_.max_channels ? Conv(y, options_.max_channels) : y;
  }

  // Adds an earlier value of the same extents, across any layers between them.
  Value SkipFromAfar(const std::vector<Value>& passed, const Value& x) {
    std::vector<Value> fitting;
    std::copy_if(passed.begin(), passed.end(), std::back_inserter(fitting),
                 [&](const Value& value) { return value.size == x.size; });
    if (fitting.empty()) return x;
    const size_t chosen = static_cast<size_t>(Between(0, static_cast<int64_t>(fitting.size()) - 1));
    const Value skip = WithChannels(fitting[chosen], x.channels);
    return {net_.Add(Named("skip"), Add{}, {x.name, skip.name}), x.channels, x.size};
  }

  void Classify(Value x) {
    if (Chance(2)) {
      x = {net_.Add("global_pool", GlobalAveragePool{}, {x.name}), x.channels, 1};
    }
    if (Chance(2)) {
      x = {net_.Add("fc_hidden", FullyConnected{.out_features = 6}, {x.name}), 6, 1};
      x = Same("relu", Relu{}, x);
      if (Chance(2)) x = Dropped(0.5F, x);
    }
    net_.Loss(net_.Add("fc", FullyConnected{.out_features = options_.classes}, {x.name}),
              SoftmaxCrossEntropy{});
  }

  // x times a gate for each channel, which is computed from the second feed. Its weights are those
  // of an earlier gate with as many channels, if there is one.
  Value Gated(const Value& x) {
    const std::string gate = Named("vector_gate");
    net_.Add(gate, FullyConnected{.out_features = x.channels, .bias = Chance(2)}, {"vector"});
    const auto [owner, is_new] = gates_.emplace(x.channels, gate);
    if (!is_new) net_.Share(absl::StrCat(gate, ".weight"), absl::StrCat(owner->second, ".weight"));
    const std::string opened = net_.Add(Named("gate"), Sigmoid{}, {gate});
    return {net_.Add(Named("multiply"), Multiply{}, {x.name, opened}), x.channels, x.size};
  }

  void AddSecondLoss(const std::vector<Value>& passed) {
    const auto any = [&] {
      return passed[static_cast<size_t>(Between(0, static_cast<int64_t>(passed.size()) - 1))];
    };
    const std::string scores =
        net_.Add("second", FullyConnected{.out_features = options_.classes}, {any().name});
    const float weight = static_cast<float>(Between(1, 20)) / 10;
    if (Chance(2)) {
      net_.Input("second_labels", {}, DType::kInt32);
      const Layer loss = Chance(2) ? Layer(SoftmaxCrossEntropy{.weight = weight})
                                   : Layer(DiceLoss{.cross_entropy = 1, .weight = weight});
      net_.Loss("second_loss", loss, {scores, "second_labels"});
    } else {
      net_.Input("second_targets", {options_.classes, 1, 1}, DType::kFp32);
      net_.Loss("second_loss", MeanSquaredError{.weight = weight}, {scores, "second_targets"});
    }
    net_.Output(scores);
    if (const Value value = any(); value.name != "input" && Chance(2)) net_.Output(value.name);
  }

  void AddAuxiliary(const std::vector<Value>& passed) {
    for (int64_t i = Between(1, 2); i > 0; --i) {
      const int64_t from = Between(0, static_cast<int64_t>(passed.size()) - 1);
      Value x = passed[static_cast<size_t>(from)];
      if (Chance(2)) x = ConvBnRelu(x, Between(1, options_.max_channels));
      if (Chance(2)) x = Same("global_pool", GlobalAveragePool{}, x);
      const std::string scores = net_.Add(
          Named("fc_auxiliary"), FullyConnected{.out_features = options_.classes}, {x.name});
      const float weight = static_cast<float>(Between(1, 5)) / 10;
      net_.AuxiliaryLoss(scores, SoftmaxCrossEntropy{.weight = weight});
    }
  }

  RandomChoices choices_;
  RandomGraphOptions options_;
  Graph net_;
  std::map<int64_t, std::string> gates_;  // the first of so many channels
  int count_ = 0;
};

}  // namespace

Graph RandomGraph(uint32_t seed, const RandomGraphOptions& options) {
  return Generator(seed, options).Build();
}

}  // namespace neap::testing

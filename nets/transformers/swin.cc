#include "neap/nets/transformers/swin.h"

#include <numeric>
#include <string>

#include "absl/strings/str_cat.h"
#include "neap/layers/activation.h"
#include "neap/layers/attention/attention.h"
#include "neap/layers/convolution.h"
#include "neap/layers/crop.h"
#include "neap/layers/dropout.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/join.h"
#include "neap/layers/norm/layer_norm.h"
#include "neap/layers/pooling.h"
#include "neap/layers/shape/permute.h"
#include "neap/layers/shape/reshape.h"
#include "neap/layers/shape/roll.h"
#include "neap/layers/shape/windows.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/layers/zero_pad.h"

namespace neap::nets {
namespace {

constexpr int64_t kSwinMlpExpansion = 4;
// trunc_normal_, which cuts the distribution at -2 and 2.
constexpr InitialWeights kSwinLinear = {
    .weight = InitialWeights::Rule::kNormal, .scale = 0.02F, .zero_bias = true};

class SwinBuilder {
 public:
  explicit SwinBuilder(const SwinOptions& options)
      : options_(options),
        last_block_(std::accumulate(options.variant.blocks.begin(), options.variant.blocks.end(),
                                    int64_t{-1})),
        channels_(options.variant.channels),
        size_(options.image / kSwinPatch),
        net_({.name = std::string(options.variant.name),
              .batch = options.batch,
              .dtype = options.dtype,
              .layout = options.layout,
              .other_files = {.ignored = {".attn.relative_position_index"}}}) {}

  Graph Build() {
    std::string x = net_.Input({options_.channels, options_.image, options_.image});
    x = net_.Add("features.0.0",
                 Convolution{.out_channels = channels_, .kernel = kSwinPatch, .stride = kSwinPatch},
                 {x});
    x = net_.Add("features.0.2", LayerNorm{}, {x});
    for (size_t stage = 0; stage < options_.variant.blocks.size(); ++stage) {
      if (stage > 0) x = MergePatches(absl::StrCat("features.", 2 * stage), x);
      for (int64_t i = 0; i < options_.variant.blocks[stage]; ++i) {
        x = AddBlock(absl::StrCat("features.", 2 * stage + 1, ".", i), x,
                     options_.variant.heads[stage], i % 2 == 1);
      }
    }
    x = net_.Add("norm", LayerNorm{}, {x});
    x = net_.Add("avgpool", GlobalAveragePool{}, {x});
    x = net_.Add("head", FullyConnected{.out_features = options_.classes, .init = kSwinLinear},
                 {x});
    net_.Loss(x, SoftmaxCrossEntropy{});
    return net_;
  }

 private:
  // The positions of a square of four as channels of one: the upper left ones, those below them,
  // the upper right ones and those below. Then as many channels again as before, linearly.
  std::string MergePatches(const std::string& name, std::string x) {
    if (size_ % 2 != 0) {
      x = net_.Add(name + ".pad", ZeroPad{.bottom = 1, .right = 1}, {x});
      ++size_;
    }
    size_ /= 2;
    x = net_.Add(name + ".squares", Reshape{.to = {channels_ * size_, 2, size_, 2}}, {x});
    x = net_.Add(name + ".columns_first", Permute{.axes = {4, 2, 1, 3}}, {x});
    x = net_.Add(name + ".merged", Reshape{.to = {4 * channels_, size_, size_}}, {x});
    x = net_.Add(name + ".norm", LayerNorm{}, {x});
    x = Linear(name + ".reduction", x, 4 * channels_, 2 * channels_, false);
    channels_ *= 2;
    return x;
  }

  std::string AddBlock(const std::string& name, const std::string& x, int64_t heads,
                       bool is_shifted) {
    std::string y = net_.Add(name + ".norm1", LayerNorm{}, {x});
    y = AddAttention(name + ".attn", y, heads, is_shifted);
    const std::string middle = AddSum(name + ".attn", y, x);
    const int64_t inner = kSwinMlpExpansion * channels_;
    y = net_.Add(name + ".norm2", LayerNorm{}, {middle});
    y = Linear(name + ".mlp.0", y, channels_, inner);
    y = net_.Add(name + ".mlp.1", Gelu{}, {y});
    y = Linear(name + ".mlp.3", y, inner, channels_);
    y = AddSum(name + ".mlp", y, middle);
    ++block_;
    return y;
  }

  std::string AddAttention(const std::string& name, std::string x, int64_t heads, bool is_shifted) {
    const int64_t whole = (size_ + kSwinWindow - 1) / kSwinWindow * kSwinWindow;
    const int64_t padding = whole - size_;
    const int64_t shift = is_shifted && whole > kSwinWindow ? kSwinWindow / 2 : 0;
    if (padding > 0) x = net_.Add(name + ".pad", ZeroPad{.bottom = padding, .right = padding}, {x});
    if (shift > 0) x = net_.Add(name + ".shifted", Roll{.shift = -shift}, {x});
    x = net_.Add(name + ".windows", WindowPartition{.window = kSwinWindow}, {x});
    x = Linear(name + ".qkv", x, channels_, 3 * channels_);
    const WindowBias bias = {.window = kSwinWindow, .size = whole, .shift = shift};
    x = net_.Add(name, Attention{.heads = heads, .axes = 1, .window_bias = bias}, {x});
    x = net_.Add(name + ".image", WindowMerge{.window = kSwinWindow, .size = whole}, {x});
    if (shift > 0) x = net_.Add(name + ".shifted_back", Roll{.shift = shift}, {x});
    if (padding > 0) x = net_.Add(name + ".crop", Crop{.size = size_}, {x});
    return Linear(name + ".proj", x, channels_, channels_);
  }

  // x plus y, which stochastic depth drops in some images.
  std::string AddSum(const std::string& name, std::string y, const std::string& x) {
    const float rate = options_.variant.stochastic_depth * static_cast<float>(block_) /
                       static_cast<float>(last_block_);
    if (rate > 0) y = net_.Add(name + ".stochastic_depth", StochasticDepth{.rate = rate}, {y});
    return net_.Add(name + ".add", Add{}, {y, x});
  }

  // torch.nn.Linear of each position.
  std::string Linear(const std::string& name, const std::string& x, int64_t in, int64_t out,
                     bool bias = true) {
    net_.Add(name, Convolution{.out_channels = out, .bias = bias, .init = kSwinLinear}, {x});
    net_.StoreAs(name + ".weight", {.shape = {out, in}});
    return name;
  }

  const SwinOptions& options_;
  const int64_t last_block_;
  int64_t block_ = 0;  // the next one's number in the network
  int64_t channels_;
  int64_t size_;  // height and width, in positions
  Graph net_;
};

}  // namespace

Graph Swin(const SwinOptions& options) { return SwinBuilder(options).Build(); }

}  // namespace neap::nets

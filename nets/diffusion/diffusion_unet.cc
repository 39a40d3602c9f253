#include "neap/nets/diffusion/diffusion_unet.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/layers/activation.h"
#include "neap/layers/attention/attention.h"
#include "neap/layers/convolution.h"
#include "neap/layers/dropout.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/join.h"
#include "neap/layers/norm/group_norm.h"
#include "neap/layers/resize/resize.h"
#include "neap/layers/target_loss.h"

namespace neap::nets {
namespace {

constexpr GroupNorm kGroups = {.groups = 32};
constexpr InitialWeights kZeros = {
    .weight = InitialWeights::Rule::kNormal, .scale = 0, .zero_bias = true};

Convolution Conv3x3(int64_t out_channels, int64_t stride = 1) {
  return {.out_channels = out_channels, .kernel = 3, .stride = stride, .padding = 1};
}

class DiffusionUNetBuilder {
 public:
  explicit DiffusionUNetBuilder(const DiffusionUNetOptions& options)
      : options_(options), net_(options.graph), size_(options.image) {}

  Graph Build() {
    const int64_t edge = options_.image;
    std::string x = net_.Input({options_.channels, edge, edge});
    AddTime();
    x = AddEncoder(x);
    const int64_t channels = options_.width * options_.multipliers.back();
    x = AddResidual("middle_block.0", channels, channels, x);
    x = AddAttention("middle_block.1", channels, x);
    x = AddResidual("middle_block.2", channels, channels, x);
    x = AddDecoder(channels, x);
    x = AddNormAndSilu("out.", x);
    Convolution last = Conv3x3(options_.out_channels);
    last.init = kZeros;
    x = net_.Add("out.2", last, {x});
    net_.TargetLoss(x, MeanSquaredError{}, {options_.out_channels, edge, edge});
    return std::move(net_);
  }

 private:
  struct Skip {
    std::string name;
    int64_t channels;
  };

  // All blocks read a SiLU of the embedding.
  void AddTime() {
    const FullyConnected linear = {.out_features = 4 * options_.width};
    std::string x = net_.Input("timestep_embedding", {options_.width, 1, 1});
    x = net_.Add("time_embed.0", linear, {x});
    x = net_.Add("time_embed.1", Silu{}, {x});
    x = net_.Add("time_embed.2", linear, {x});
    time_ = net_.Add("time_embed.3", Silu{}, {x});
  }

  std::string AddNormAndSilu(const std::string& prefix, std::string x) {
    x = net_.Add(prefix + "0", kGroups, {x});
    return net_.Add(prefix + "1", Silu{}, {x});
  }

  std::string AddResidual(const std::string& name, int64_t in_channels, int64_t out_channels,
                          const std::string& x) {
    std::string y = AddNormAndSilu(name + ".in_layers.", x);
    y = net_.Add(name + ".in_layers.2", Conv3x3(out_channels), {y});
    const std::string time =
        net_.Add(name + ".emb_layers.1", FullyConnected{.out_features = out_channels}, {time_});
    y = net_.Add(name + ".add_time", Add{}, {y, time});
    y = AddNormAndSilu(name + ".out_layers.", y);
    if (options_.dropout > 0)
      y = net_.Add(name + ".out_layers.2", Dropout{.probability = options_.dropout}, {y});
    Convolution last = Conv3x3(out_channels);
    last.init = kZeros;
    y = net_.Add(name + ".out_layers.3", last, {y});
    std::string shortcut = x;
    if (in_channels != out_channels) {
      shortcut =
          net_.Add(name + ".skip_connection", Convolution{.out_channels = out_channels}, {x});
    }
    return net_.Add(name + ".add", Add{}, {y, shortcut});
  }

  std::string AddAttention(const std::string& name, int64_t channels, const std::string& x) {
    std::string y = net_.Add(name + ".norm", kGroups, {x});
    y = net_.Add(name + ".qkv", Convolution{.out_channels = 3 * channels}, {y});
    y = net_.Add(name + ".attention", Attention{.heads = options_.heads}, {y});
    y = net_.Add(name + ".proj_out", Convolution{.out_channels = channels, .init = kZeros}, {y});
    return net_.Add(name + ".add", Add{}, {y, x});
  }

  bool HasAttention() const {
    return std::count(options_.attention.begin(), options_.attention.end(), size_) > 0;
  }

  // Block `number` of `side`: a residual block, and at some sizes a self-attention.
  std::string AddBlock(const char* side, size_t number, int64_t in_channels, int64_t out_channels,
                       const std::string& x) {
    const std::string name = absl::StrCat(side, number, ".");
    const std::string y = AddResidual(name + "0", in_channels, out_channels, x);
    return HasAttention() ? AddAttention(name + "1", out_channels, y) : y;
  }

  std::string AddEncoder(std::string x) {
    constexpr const char* kSide = "input_blocks.";
    int64_t channels = options_.width;
    x = net_.Add("input_blocks.0.0", Conv3x3(channels), {x});
    skips_ = {{x, channels}};
    for (size_t level = 0; level < options_.multipliers.size(); ++level) {
      if (level > 0) {
        x = net_.Add(absl::StrCat(kSide, skips_.size(), ".0.op"), Conv3x3(channels, 2), {x});
        size_ /= 2;
        skips_.push_back({x, channels});
      }
      const int64_t out_channels = options_.width * options_.multipliers[level];
      for (int64_t i = 0; i < options_.blocks; ++i) {
        x = AddBlock(kSide, skips_.size(), channels, out_channels, x);
        channels = out_channels;
        skips_.push_back({x, channels});
      }
    }
    return x;
  }

  std::string AddDecoder(int64_t channels, std::string x) {
    constexpr const char* kSide = "output_blocks.";
    size_t number = 0;
    for (size_t level = options_.multipliers.size(); level-- > 0;) {
      const int64_t out_channels = options_.width * options_.multipliers[level];
      for (int64_t i = 0; i <= options_.blocks; ++i, ++number) {
        const Skip skip = skips_.back();
        skips_.pop_back();
        x = net_.Add(absl::StrCat(kSide, number, ".cat"), Concat{}, {x, skip.name});
        x = AddBlock(kSide, number, channels + skip.channels, out_channels, x);
        channels = out_channels;
        if (level > 0 && i == options_.blocks) {
          x = AddEnlarged(absl::StrCat(kSide, number, HasAttention() ? ".2" : ".1"), channels, x);
        }
      }
    }
    return x;
  }

  std::string AddEnlarged(const std::string& name, int64_t channels, std::string x) {
    x = net_.Add(name + ".up", Resize{.scales = {2}}, {x});
    size_ *= 2;
    return net_.Add(name + ".conv", Conv3x3(channels), {x});
  }

  const DiffusionUNetOptions& options_;
  Graph net_;
  int64_t size_;  // the height where the next block is
  std::string time_;
  std::vector<Skip> skips_;  // what the decoder joins, the last one first
};

}  // namespace

DiffusionUNetOptions DiffusionUNet256() {
  return {.graph = {.name = "ddpm-256", .batch = 8},
          .image = 256,
          .multipliers = {1, 1, 2, 2, 4, 4},
          .dropout = 0};
}

Graph DiffusionUNet(const DiffusionUNetOptions& options) {
  return DiffusionUNetBuilder(options).Build();
}

std::vector<float> SinusoidalEmbedding(const std::vector<int64_t>& steps, int64_t channels) {
  const int64_t half = channels / 2;
  std::vector<float> embedding(steps.size() * static_cast<size_t>(channels));
  for (size_t n = 0; n < steps.size(); ++n) {
    float* const row = embedding.data() + static_cast<int64_t>(n) * channels;
    for (int64_t i = 0; i < half; ++i) {
      const double exponent = -static_cast<double>(i) / static_cast<double>(half);
      const double angle = static_cast<double>(steps[n]) * std::pow(10000.0, exponent);
      row[i] = static_cast<float>(std::cos(angle));
      row[half + i] = static_cast<float>(std::sin(angle));
    }
  }
  return embedding;
}

}  // namespace neap::nets

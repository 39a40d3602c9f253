// The texts of definitions: two definitions that differ in a field never have the same.
#include <doctest/doctest.h>

#include <cmath>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "neap/core/graph/source.h"
#include "neap/core/step/signature_text.h"
#include "neap/layers/activation.h"
#include "neap/layers/attention/attention.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/channel_shuffle.h"
#include "neap/layers/channel_slice.h"
#include "neap/layers/channel_split.h"
#include "neap/layers/convolution.h"
#include "neap/layers/crop.h"
#include "neap/layers/dropout.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/join.h"
#include "neap/layers/loss/dice_loss.h"
#include "neap/layers/lrn.h"
#include "neap/layers/norm/group_norm.h"
#include "neap/layers/norm/layer_norm.h"
#include "neap/layers/norm/softmax.h"
#include "neap/layers/pooling.h"
#include "neap/layers/prelu.h"
#include "neap/layers/resize/pixel_shuffle.h"
#include "neap/layers/resize/resize.h"
#include "neap/layers/scale_shift.h"
#include "neap/layers/shape/permute.h"
#include "neap/layers/shape/reshape.h"
#include "neap/layers/shape/roll.h"
#include "neap/layers/shape/tile.h"
#include "neap/layers/shape/windows.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/layers/target_loss.h"
#include "neap/layers/tokens/embedding.h"
#include "neap/layers/tokens/linear_cross_entropy.h"
#include "neap/layers/tokens/position_embedding.h"
#include "neap/layers/tokens/prepend_token.h"
#include "neap/layers/transposed_convolution.h"
#include "neap/layers/zero_pad.h"

namespace neap {
namespace {

// Every field of a definition that changes its steps. With another field, these do not compile.
auto Fields(BatchNorm& d) {
  auto& [a, b] = d;
  return std::tie(a, b);
}
auto Fields(Convolution& d) {
  auto& [a, b, c, e, f, g, h, init] = d;
  static_cast<void>(init);
  return std::tie(a, b, c, e, f, g, h);
}
auto Fields(Crop& d) {
  auto& [a, b] = d;
  return std::tie(a, b);
}
auto Fields(ChannelShuffle& d) {
  auto& [a] = d;
  return std::tie(a);
}
auto Fields(ChannelSlice& d) {
  auto& [a, b] = d;
  return std::tie(a, b);
}
auto Fields(ChannelSplit& d) {
  auto& [a] = d;
  return std::tie(a);
}
auto Fields(ScaleShift& d) {
  auto& [a, b, c, e] = d;
  return std::tie(a, b, c, e);
}
auto Fields(Reshape& d) {
  auto& [a] = d;
  return std::tie(a);
}
auto Fields(Permute& d) {
  auto& [a] = d;
  return std::tie(a);
}
auto Fields(WindowPartition& d) {
  auto& [a] = d;
  return std::tie(a);
}
auto Fields(WindowMerge& d) {
  auto& [a, b] = d;
  return std::tie(a, b);
}
auto Fields(Roll& d) {
  auto& [a] = d;
  return std::tie(a);
}
auto Fields(Tile& d) {
  auto& [a, b] = d;
  return std::tie(a, b);
}
auto Fields(LeakyRelu& d) {
  auto& [a] = d;
  return std::tie(a);
}
auto Fields(Clip& d) {
  auto& [a, b] = d;
  return std::tie(a, b);
}
auto Fields(Gelu& d) {
  auto& [a] = d;
  return std::tie(a);
}
auto Fields(Elu& d) {
  auto& [a] = d;
  return std::tie(a);
}
auto Fields(Softplus& d) {
  auto& [a, b] = d;
  return std::tie(a, b);
}
auto Fields(Embedding& d) {
  auto& [a, b, c, init] = d;
  static_cast<void>(init);
  return std::tie(a, b, c);
}
auto Fields(LinearCrossEntropy& d) {
  auto& [a, b, c, init] = d;
  static_cast<void>(init);
  return std::tie(a, b, c);
}
auto Fields(Prelu& d) {
  auto& [a] = d;
  return std::tie(a);
}
auto Fields(Dropout& d) {
  auto& [a, b] = d;
  return std::tie(a, b);
}
auto Fields(StochasticDepth& d) {
  auto& [a] = d;
  return std::tie(a);
}
auto Fields(FullyConnected& d) {
  auto& [a, b, init] = d;
  static_cast<void>(init);
  return std::tie(a, b);
}
auto Fields(GroupNorm& d) {
  auto& [a, b, c, e] = d;
  return std::tie(a, b, c, e);
}
auto Fields(InstanceNorm& d) {
  auto& [a, b, c] = d;
  return std::tie(a, b, c);
}
auto Fields(Softmax& d) {
  auto& [a, b] = d;
  return std::tie(a, b);
}
auto Fields(Attention& d) {
  auto& [a, b, c, e, f, g, h, i, j] = d;
  return std::tie(a, b, c, e, f, g, h, i, j);
}
auto Fields(LayerNorm& d) {
  auto& [a, b, c] = d;
  return std::tie(a, b, c);
}
auto Fields(LocalResponseNorm& d) {
  auto& [a, b, c, e] = d;
  return std::tie(a, b, c, e);
}
auto Fields(MaxPool& d) {
  auto& [a, b, c, e, f] = d;
  return std::tie(a, b, c, e, f);
}
auto Fields(AveragePool& d) {
  auto& [a, b, c, e, f, g] = d;
  return std::tie(a, b, c, e, f, g);
}
auto Fields(AdaptiveAveragePool& d) {
  auto& [a] = d;
  return std::tie(a);
}
auto Fields(Resize& d) {
  auto& [a, b, c, e, f, g] = d;
  return std::tie(a, b, c, e, f, g);
}
auto Fields(PixelShuffle& d) {
  auto& [a, b] = d;
  return std::tie(a, b);
}
auto Fields(PixelUnshuffle& d) {
  auto& [a, b] = d;
  return std::tie(a, b);
}
auto Fields(SoftmaxCrossEntropy& d) {
  auto& [a, b, c] = d;
  return std::tie(a, b, c);
}
auto Fields(DiceLoss& d) {
  auto& [a, b, c, e, f] = d;
  return std::tie(a, b, c, e, f);
}
auto Fields(MeanSquaredError& d) {
  auto& [a] = d;
  return std::tie(a);
}
auto Fields(BinaryCrossEntropy& d) {
  auto& [a, b] = d;
  return std::tie(a, b);
}
auto Fields(FocalLoss& d) {
  auto& [a, b, c] = d;
  return std::tie(a, b, c);
}
auto Fields(Feed& d) {
  auto& [a, b] = d;
  return std::tie(a, b);
}
auto Fields(TransposedConvolution& d) {
  auto& [a, b, c, e, f, g, init] = d;
  static_cast<void>(init);
  return std::tie(a, b, c, e, f, g);
}
auto Fields(ZeroPad& d) {
  auto& [a, b, c, e, f, g] = d;
  return std::tie(a, b, c, e, f, g);
}

// Values other than the given one, neighbours among them.
std::vector<int64_t> Others(int64_t v) { return {v + 1, v + 10, v + 11}; }
std::vector<bool> Others(bool v) { return {!v}; }
std::vector<float> Others(float v) {
  return {std::nextafter(v, 1e9F), std::nextafter(v, -1e9F), v + 1};
}
std::vector<Gelu::Approximation> Others(Gelu::Approximation) {
  return {Gelu::Approximation::kTanh};
}
std::vector<Extents> Others(Extents v) {
  const int64_t h = v.h(), w = v.w();
  return {{h + 1, w}, {h, w + 1}, {h + 1, w + 1}, {h + 10, w}, {1, h, w}, Extents::Of({w})};
}
std::vector<std::optional<int64_t>> Others(const std::optional<int64_t>&) { return {0, 1, 10}; }
std::vector<std::optional<Extents>> Others(const std::optional<Extents>&) {
  return {Extents(1), Extents(11), Extents(1, 11), Extents(1, 1, 1)};
}
std::vector<std::optional<WindowBias>> Others(const std::optional<WindowBias>&) {
  return {WindowBias{}, WindowBias{.window = 11}, WindowBias{.size = 11}, WindowBias{.shift = 11},
          WindowBias{.window = {1, 11}}};
}
std::vector<std::vector<float>> Others(const std::vector<float>&) {
  return {{1}, {2}, {1.5F}, {std::nextafter(1.5F, 2.0F)}, {1, 1}, {1, 1.5F}, {1, 1, 1}};
}
std::vector<std::vector<double>> Others(const std::vector<double>&) {
  return {{1}, {2}, {1.5}, {std::nextafter(1.5, 2.0)}, {1, 1}, {1, 1.5}, {1, 1, 1}};
}
template <typename Enum, int kCount>
std::vector<Enum> OtherValues(Enum v) {
  std::vector<Enum> others;
  for (int i = 1; i < kCount; ++i)
    others.push_back(static_cast<Enum>((static_cast<int>(v) + i) % kCount));
  return others;
}
std::vector<Resize::Mode> Others(Resize::Mode v) { return OtherValues<Resize::Mode, 3>(v); }
std::vector<Resize::Coordinates> Others(Resize::Coordinates v) {
  return OtherValues<Resize::Coordinates, 3>(v);
}
std::vector<Resize::Rounding> Others(Resize::Rounding v) {
  return OtherValues<Resize::Rounding, 4>(v);
}
std::vector<std::vector<int64_t>> Others(const std::vector<int64_t>&) {
  return {{1}, {11}, {1, 1}, {1, 10}, {11, 1}};
}
std::vector<TensorSpec> Others(const TensorSpec& v) {
  return {{Shape{7}, v.dtype, v.layout},
          {Shape{7, 1}, v.dtype, v.layout},
          {v.shape, DType::kTf32, v.layout},
          {v.shape, v.dtype, Layout::kChannelsLast}};
}

class Definitions {
 public:
  void Add(const Layer& layer) { layers_.push_back(layer); }
  // The default, and all that differ from it in one field.
  template <typename Definition>
  void AddVariants(const Definition& standard) {
    Add(standard);
    Definition changed = standard;
    std::apply([&](auto&... field) { (AddChanges(changed, field), ...); }, Fields(changed));
  }
  const std::vector<Layer>& layers() const { return layers_; }

 private:
  template <typename Definition, typename Field>
  void AddChanges(const Definition& definition, Field& field) {
    const Field before = field;
    for (const Field& other : Others(before)) {
      field = other;
      Add(definition);
    }
    field = before;
  }
  std::vector<Layer> layers_;
};

TEST_CASE("two definitions never have the same text, whichever field they differ in") {
  Definitions all;
  all.AddVariants(BatchNorm{});
  all.AddVariants(Convolution{});
  all.AddVariants(Crop{});
  all.AddVariants(ChannelShuffle{});
  all.AddVariants(ChannelSlice{});
  all.AddVariants(ChannelSplit{});
  all.AddVariants(ScaleShift{});
  all.AddVariants(Reshape{});
  all.AddVariants(Permute{});
  all.AddVariants(WindowPartition{});
  all.AddVariants(WindowMerge{});
  all.AddVariants(Roll{});
  all.AddVariants(Tile{});
  all.AddVariants(LeakyRelu{});
  all.AddVariants(Clip{});
  all.AddVariants(Gelu{});
  all.AddVariants(Elu{});
  all.AddVariants(Softplus{});
  all.AddVariants(Prelu{});
  all.AddVariants(Embedding{});
  all.AddVariants(LinearCrossEntropy{});
  all.AddVariants(Dropout{});
  all.AddVariants(StochasticDepth{});
  all.AddVariants(FullyConnected{});
  all.AddVariants(GroupNorm{});
  all.AddVariants(InstanceNorm{});
  all.AddVariants(Attention{});
  all.AddVariants(LayerNorm{});
  all.AddVariants(Softmax{});
  all.AddVariants(LocalResponseNorm{});
  all.AddVariants(MaxPool{});
  all.AddVariants(AveragePool{});
  all.AddVariants(AdaptiveAveragePool{.size = 7});
  all.AddVariants(Resize{});
  all.AddVariants(Resize{.sizes = 5, .mode = Resize::Mode::kCubic});
  all.AddVariants(PixelShuffle{});
  all.AddVariants(PixelUnshuffle{});
  all.AddVariants(SoftmaxCrossEntropy{});
  all.AddVariants(SoftmaxCrossEntropy{.label_smoothing = 0.1F});
  all.AddVariants(DiceLoss{});
  all.AddVariants(MeanSquaredError{});
  all.AddVariants(BinaryCrossEntropy{});
  all.AddVariants(FocalLoss{});
  all.AddVariants(TransposedConvolution{});
  all.AddVariants(ZeroPad{});
  all.AddVariants(Feed{.tensor = {.shape = {8, 3, 4, 4}}});
  CHECK(SoftmaxCrossEntropy{}.Parameters().empty());
  CHECK(MeanSquaredError{}.Parameters().empty());
  CHECK(BinaryCrossEntropy{}.Parameters().empty());
  CHECK(Dropout{}.Parameters() == "probability=0.5");
  CHECK(ScaleShift{}.Parameters() == "scale=1 shift=0");
  CHECK(MaxPool{}.Parameters() == "kernel=2x2 stride=2x2 padding=0x0");
  CHECK(AveragePool{}.Parameters() == "kernel=2x2 stride=2x2 padding=0x0 count_padding=true");
  for (const Layer& layer :
       std::vector<Layer>{Relu{}, Sigmoid{}, Tanh{}, Add{}, Concat{}, GlobalAveragePool{},
                          PositionEmbedding{}, PrependToken{}}) {
    all.Add(layer);
    CHECK(layer.Parameters().empty());
  }
  absl::flat_hash_map<std::string, Layer> seen;
  for (const Layer& layer : all.layers()) {
    const std::string text = SignatureText({.layer = layer});
    CAPTURE(text);
    CHECK(seen.try_emplace(text, layer).second);
  }
  CHECK(seen.size() == all.layers().size());
}

}  // namespace
}  // namespace neap

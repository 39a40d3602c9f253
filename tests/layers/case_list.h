// The list of cases while it is made: each method adds those of one kind of layer.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/step/window.h"
#include "neap/layers/attention/attention.h"
#include "neap/layers/convolution.h"
#include "neap/layers/pooling.h"
#include "neap/layers/resize/resize.h"
#include "neap/layers/tokens/embedding.h"
#include "neap/layers/tokens/linear_cross_entropy.h"
#include "neap/layers/transposed_convolution.h"
#include "tests/layers/cases.h"

namespace neap::testing {

inline constexpr int kRandomCasesPerLayer = 12;

// Random numbers that, unlike the standard distributions, are the same on every platform.
class Dice {
 public:
  explicit Dice(uint32_t seed) : engine_(seed) {}
  int64_t Between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(engine_() % static_cast<uint32_t>(high - low + 1));
  }
  bool Coin() { return Between(0, 1) == 1; }

 private:
  std::mt19937 engine_;
};

inline std::string Text(const Extents& e) { return e.ToString(); }

class CaseList {
 public:
  explicit CaseList(uint32_t seed) : dice_(seed) {}
  std::vector<LayerCase> Take() { return std::move(cases_); }

  // window_cases.cc
  void Convolutions();
  void ResidualConvolutions();
  void Upsampling();
  void Pools();
  void RoundedUpAverages();
  void DilatedPools();
  void ZeroPads();
  // resize_cases.cc
  void Resizes();
  void AdaptivePools();
  void PixelShuffles();
  void ResizedSequences();
  void ResizedVolumes();
  // shape_cases.cc
  void Reshapes();
  void Permutes();
  void Windows();
  void Rolls();
  void Tiles();
  // axes_cases.cc
  void Sequences();
  void Volumes();
  // norm_cases.cc
  void FoldedConvolutions();
  void ConcatNorms();
  void Norms();
  void SyncNorms();
  void ImageNorms();
  void Softmaxes();
  // attention_cases.cc
  void Attentions();
  // token_cases.cc
  void Tokens();
  // cases.cc
  void Elementwise();
  void Dense();
  void Losses();
  void Joins();

 private:
  // Adds the case in both layouts.
  void Add(const std::string& name, const Layer& layer, const std::vector<Shape>& shapes);
  void AddConvolution(const Convolution& c, const Shape& shape);
  void AddMaxPool(const MaxPool& pool, const Shape& shape);
  void AddPool(Extents kernel, Extents stride, Extents padding, const Shape& shape);
  // All poolings with these windows, in both ceil_modes and with and without padding in the mean.
  void AddDilated(const MaxPool& pool, const Shape& shape);
  // In ceil_mode, with and without padding in the mean.
  void AddRoundedUpAverages(AveragePool pool, const Shape& shape);
  void AddResize(const Resize& resize, const Shape& shape);
  void AddInexactScales(Resize::Mode mode);
  void AddAdaptive(const Extents& size, const Shape& shape);
  // In both orders, and the inverse.
  void AddPixelShuffles(int64_t factor, const Shape& large);
  void AddShapeLayer(const Layer& layer, const Shape& shape);
  void AddRandomConvolution();
  void AddRandomDepthwise();
  void AddTransposed(const TransposedConvolution& t, const Shape& shape);
  // Of images in NHWC only.
  void AddFolded(int64_t out_channels, const Shape& shape);
  void AddFusedNorms(const Shape& shape);
  void AddAveragedNorms(const Shape& shape);
  // Batch norm over ranks, as one of them runs it.
  void AddSyncNorms(int ranks, const Shape& shape);
  // Along each axis, with and without the logarithm.
  void AddSoftmaxes(const Shape& shape);
  // Norms that do not couple images.
  void AddImageNorms(const Shape& shape);
  void AddActivatedGroupNorms(const Shape& shape);
  void AddAttention(const Attention& layer, const std::vector<Shape>& inputs);
  void AddAttentions(int64_t images, int64_t dims, int64_t queries, int64_t keys);
  // Of parts with these channels.
  void AddConcatenatedNorms(const Shape& image, const std::vector<int64_t>& channels);
  // Of a part of these channels in each position, of which the second is not normalised.
  void AddConcatNorms(const Shape& image, const std::vector<int64_t>& channels);
  // With a scale, a shift or both of each channel.
  void AddLearnedScales(const Shape& shape);
  // Dropout of channels and of images.
  void AddDroppedUnits(float probability, const Shape& shape);
  // Ends of residual branches that scale, drop or do both.
  void AddResidualTails(const Shape& shape);
  // With channels last only, with and without a bias.
  void AddResidualConvolution(int64_t out_channels, const Shape& shape);
  // In both layouts of the network.
  void AddEmbedding(const Embedding& layer, const Shape& ids);
  void AddTokenLoss(const LinearCrossEntropy& layer, const Shape& x);
  // With labels that are finer along the spatial axes: `finer` times, finer + 1 times, ...
  void AddLoss(const Shape& logits, Layout layout, const Layer& layer, int64_t finer = 0);
  // Losses of predictions of this shape, in both layouts.
  void AddLosses(const Shape& shape);
  // The layers without windows.
  void AddPointwise(const Shape& shape);
  // Of volumes.
  void AddConvolutionsOfVolumes();
  void AddPoolsOfVolumes();
  void AddRandomVolume();
  Extents Extent(int64_t low, int64_t high) {
    const int64_t h = dice_.Between(low, high);
    return {h, dice_.Between(low, high)};
  }
  Extents ExtentOfVolume(int64_t low, int64_t high) {
    const int64_t d = dice_.Between(low, high);
    const int64_t h = dice_.Between(low, high);
    return {d, h, dice_.Between(low, high)};
  }
  Shape RandomShape() {
    const int64_t n = dice_.Between(1, 4);
    const int64_t c = dice_.Between(1, 20);
    const int64_t h = dice_.Between(1, 9);
    return {n, c, h, dice_.Between(1, 9)};
  }

  Dice dice_;
  std::vector<LayerCase> cases_;
};

}  // namespace neap::testing

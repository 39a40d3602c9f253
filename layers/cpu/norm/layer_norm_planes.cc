// Layer norm in NCHW. Neighbours in memory are positions of one channel, so the loops take some
// positions at a time through all channels:
//
//   channel 0   [ block ][ block ][ ..
//   channel 1   [   |   ][       ][
//               [   v   ]
//
// Each position has sums of its own, to which channels are added in their order, and sums of a
// channel get positions in theirs. The results have the bits of loops over one position at a time,
// which NHWC has (image_norms.cc).
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "neap/layers/cpu/norm/image_norms.h"
#include "neap/layers/norm/layer_norm.h"

namespace neap::cpu {
namespace {

using namespace operands;

constexpr int64_t kBlockPositions = 128;

struct NormPlanes {
  int64_t images, channels, positions;
  double epsilon;
};

NormPlanes NormPlanesOf(const StepSignature& signature) {
  const Shape& x = signature.Spec(X()).shape;
  return {x.n(), x.c(), x.positions(),
          static_cast<double>(signature.layer.As<LayerNorm>()->epsilon)};
}

// Neighbouring positions of an image: the first's element of channel 0, and its statistics.
struct PositionBlock {
  int64_t first, statistics, count;
};

template <typename Visit>
void ForEachPositionBlock(const NormPlanes& planes, Visit visit) {
  for (int64_t n = 0; n < planes.images; ++n) {
    for (int64_t p = 0; p < planes.positions; p += kBlockPositions) {
      visit(PositionBlock{n * planes.channels * planes.positions + p, n * planes.positions + p,
                          std::min(kBlockPositions, planes.positions - p)});
    }
  }
}

struct BlockStatistics {
  float mean[kBlockPositions], invstd[kBlockPositions];
};

// Two passes, because subtracting the mean first avoids cancellation.
void ComputeStatistics(const NormPlanes& planes, const PositionBlock& block, const float* x,
                       BlockStatistics& of) {
  const auto channels = static_cast<double>(planes.channels);
  double mean[kBlockPositions] = {}, variance[kBlockPositions] = {};
  for (int64_t c = 0; c < planes.channels; ++c) {
    const float* const row = x + block.first + c * planes.positions;
    for (int64_t p = 0; p < block.count; ++p) mean[p] += static_cast<double>(row[p]);
  }
  for (int64_t p = 0; p < block.count; ++p) mean[p] /= channels;
  for (int64_t c = 0; c < planes.channels; ++c) {
    const float* const row = x + block.first + c * planes.positions;
    for (int64_t p = 0; p < block.count; ++p) {
      const double centred = static_cast<double>(row[p]) - mean[p];
      variance[p] += centred * centred;
    }
  }
  for (int64_t p = 0; p < block.count; ++p) {
    of.mean[p] = static_cast<float>(mean[p]);
    of.invstd[p] = static_cast<float>(1.0 / std::sqrt(variance[p] / channels + planes.epsilon));
  }
}

// Forward and its rerun both call this function, so they give the same bits. y may be x.
[[gnu::noinline]] void NormaliseBlock(const NormPlanes& planes, const PositionBlock& block,
                                      const BlockStatistics& of, const float* gamma,
                                      const float* beta, const float* x, float* y) {
  for (int64_t c = 0; c < planes.channels; ++c) {
    const int64_t begin = block.first + c * planes.positions;
    const auto store = [&](auto value) {
#pragma GCC ivdep
      for (int64_t p = 0; p < block.count; ++p)
        y[begin + p] = value(x[begin + p] - of.mean[p], of.invstd[p]);
    };
    if (gamma == nullptr) {
      store([](float centred, float invstd) { return centred * invstd; });
    } else if (beta == nullptr) {
      store([g = gamma[c]](float centred, float invstd) { return centred * (invstd * g); });
    } else {
      store([g = gamma[c], b = beta[c]](float centred, float invstd) {
        return centred * (invstd * g) + b;
      });
    }
  }
}

// The sums over the channels of gamma dy and gamma dy xhat at each position, where xhat is the
// normalised x; those of dy and dy xhat are added to the channels' own.
struct BlockSums {
  double dy[kBlockPositions] = {}, dy_xhat[kBlockPositions] = {};
};

void AddChannelOfBlock(const PositionBlock& block, const BlockStatistics& of, const float* x,
                       const float* dy, double factor, BlockSums& sums, double& dbeta,
                       double& dgamma) {
  double products[kBlockPositions];
  for (int64_t p = 0; p < block.count; ++p) {
    const float xhat = (x[p] - of.mean[p]) * of.invstd[p];
    products[p] = static_cast<double>(dy[p] * xhat);
    sums.dy[p] += factor * static_cast<double>(dy[p]);
    sums.dy_xhat[p] += factor * products[p];
  }
  for (int64_t p = 0; p < block.count; ++p) {
    dbeta += static_cast<double>(dy[p]);
    dgamma += products[p];
  }
}

}  // namespace

void LayerNormPlanesForward(const LoopArgs& args) {
  const NormPlanes planes = NormPlanesOf(args.signature);
  const float* const x = args.Get<float>(X());
  const float* const gamma = args.Find<float>(Param(0));
  const float* const beta = args.Find<float>(Param(1));
  float* const mean = args.Find<float>(Saved(0));
  float* const invstd = args.Find<float>(Saved(1));
  float* const y = args.Get<float>(Y());
  ForEachPositionBlock(planes, [&](const PositionBlock& block) {
    BlockStatistics of;
    if (args.signature.rerun) {
      std::copy_n(mean + block.statistics, block.count, of.mean);
      std::copy_n(invstd + block.statistics, block.count, of.invstd);
    } else {
      ComputeStatistics(planes, block, x, of);
      if (mean != nullptr) {
        std::copy_n(of.mean, block.count, mean + block.statistics);
        std::copy_n(of.invstd, block.count, invstd + block.statistics);
      }
    }
    NormaliseBlock(planes, block, of, gamma, beta, x, y);
  });
}

void LayerNormPlanesBackward(const LoopArgs& args) {
  const NormPlanes planes = NormPlanesOf(args.signature);
  const float* const x = args.Get<float>(X());
  const float* const dy = args.Get<float>(Dy());
  const float* const gamma = args.Find<float>(Param(0));
  const float* const mean = args.Get<float>(Saved(0));
  const float* const invstd = args.Get<float>(Saved(1));
  float* const dx = args.Get<float>(Dx());
  auto* const dbeta = args.Workspace<double>();
  double* const dgamma = dbeta + planes.channels;
  std::fill_n(dbeta, 2 * planes.channels, 0.0);
  ForEachPositionBlock(planes, [&](const PositionBlock& block) {
    BlockStatistics of;
    std::copy_n(mean + block.statistics, block.count, of.mean);
    std::copy_n(invstd + block.statistics, block.count, of.invstd);
    BlockSums sums;
    for (int64_t c = 0; c < planes.channels; ++c) {
      const int64_t begin = block.first + c * planes.positions;
      const double factor = gamma == nullptr ? 1 : static_cast<double>(gamma[c]);
      AddChannelOfBlock(block, of, x + begin, dy + begin, factor, sums, dbeta[c], dgamma[c]);
    }
    float mean_dy[kBlockPositions], mean_dy_xhat[kBlockPositions];
    const auto channels = static_cast<double>(planes.channels);
    for (int64_t p = 0; p < block.count; ++p) {
      mean_dy[p] = static_cast<float>(sums.dy[p] / channels);
      mean_dy_xhat[p] = static_cast<float>(sums.dy_xhat[p] / channels);
    }
    for (int64_t c = 0; c < planes.channels; ++c) {
      const int64_t begin = block.first + c * planes.positions;
      const float factor = gamma == nullptr ? 1 : gamma[c];
#pragma GCC ivdep
      for (int64_t p = 0; p < block.count; ++p) {
        const float xhat = (x[begin + p] - of.mean[p]) * of.invstd[p];
        dx[begin + p] =
            of.invstd[p] * (factor * dy[begin + p] - mean_dy[p] - xhat * mean_dy_xhat[p]);
      }
    }
  });
  StoreSums(args, ParamGrad(0), dgamma);
  StoreSums(args, ParamGrad(1), dbeta);
  AddAddend(args);
}

}  // namespace neap::cpu

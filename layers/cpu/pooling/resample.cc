// Resize and AdaptiveAveragePool: weighted sums of ranges of elements, in both directions.
//
// Ranges and weights are computed once for each position along an axis, in the workspace. Every
// position has room for the weights of the longest range:
//
//   [ranges of D)[of H)[of W)[weights of D)[of H)[of W)
#include <algorithm>
#include <array>
#include <cstddef>

#include "neap/layers/cpu/candidates.h"
#include "neap/layers/resize/resample_axes.h"

namespace neap::cpu {
namespace {

using namespace operands;
using Range = IndexRange<int64_t>;

// One axis in one direction: which elements of what a step reads are summed, and their weights.
struct GatheredAxis {
  GatheredAxis(const ResampleAxis<int64_t>& of, bool backward)
      : axis(of),
        is_backward(backward),
        read(backward ? of.out : of.in),
        written(backward ? of.in : of.out),
        longest(backward ? of.MaxOutputs() : of.MaxInputs()) {}

  void Fill() {
    for (int64_t at = 0; at < written; ++at) {
      ranges[at] = is_backward ? axis.Outputs(at) : axis.Inputs(at);
      for (int64_t from = ranges[at].first; from < ranges[at].last; ++from) {
        weights[at * longest + from - ranges[at].first] =
            is_backward ? axis.Weight(from, at) : axis.Weight(at, from);
      }
    }
  }
  float WeightOf(int64_t at, int64_t from) const {
    return weights[at * longest + from - ranges[at].first];
  }

  ResampleAxis<int64_t> axis;
  bool is_backward;
  int64_t read, written, longest;
  Range* ranges = nullptr;
  float* weights = nullptr;
};

std::array<GatheredAxis, kMaxSpatialAxes> AxesOf(const StepSignature& signature) {
  const bool backward = signature.phase == Phase::kBackwardData;
  const auto [depth, height, width] = ResampleAxesOf(signature);
  return {GatheredAxis(depth, backward), GatheredAxis(height, backward),
          GatheredAxis(width, backward)};
}

int64_t TableBytes(const StepSignature& signature) {
  int64_t bytes = 0;
  for (const GatheredAxis& axis : AxesOf(signature)) {
    const auto weights = axis.longest * static_cast<int64_t>(sizeof(float));
    bytes += axis.written * (static_cast<int64_t>(sizeof(Range)) + weights);
  }
  return bytes;
}

void PlaceTables(std::byte* workspace, std::array<GatheredAxis, kMaxSpatialAxes>& axes) {
  auto* ranges = reinterpret_cast<Range*>(workspace);
  for (GatheredAxis& axis : axes) {
    axis.ranges = ranges;
    ranges += axis.written;
  }
  auto* weights = reinterpret_cast<float*>(ranges);
  for (GatheredAxis& axis : axes) {
    axis.weights = weights;
    weights += axis.written * axis.longest;
    axis.Fill();
  }
}

// Adds to `sums`, for each channel, the elements of one row that position `to` is made of.
void AddRow(const GatheredAxis& axis, int64_t to, int64_t channels, float weight, const float* row,
            float* sums) {
  for (int64_t w = axis.ranges[to].first; w < axis.ranges[to].last; ++w) {
    const float factor = weight * axis.WeightOf(to, w);
    const float* const pixel = row + w * channels;
#pragma GCC ivdep
    for (int64_t c = 0; c < channels; ++c) sums[c] += factor * pixel[c];
  }
}

// The row {W, channels} at (d, h) of the result, which it overwrites.
void GatherRow(const std::array<GatheredAxis, kMaxSpatialAxes>& axes, int64_t channels, int64_t d,
               int64_t h, const float* image, float* to) {
  const auto& [depth, height, width] = axes;
  std::fill_n(to, width.written * channels, 0.0F);
  for (int64_t p = depth.ranges[d].first; p < depth.ranges[d].last; ++p) {
    for (int64_t r = height.ranges[h].first; r < height.ranges[h].last; ++r) {
      const float weight = depth.WeightOf(d, p) * height.WeightOf(h, r);
      const float* const row = image + (p * height.read + r) * width.read * channels;
      for (int64_t w = 0; w < width.written; ++w)
        AddRow(width, w, channels, weight, row, to + w * channels);
    }
  }
}

void Resample(const LoopArgs& args) {
  const bool backward = args.signature.phase == Phase::kBackwardData;
  const TensorSpec& read = args.signature.Spec(backward ? Dy() : X());
  const bool last = read.layout == Layout::kChannelsLast;
  const int64_t channels = last ? read.shape.c() : 1;
  std::array<GatheredAxis, kMaxSpatialAxes> axes = AxesOf(args.signature);
  PlaceTables(args.Workspace<std::byte>(), axes);
  const float* from = args.Get<float>(backward ? Dy() : X());
  float* to = args.Get<float>(backward ? Dx() : Y());
  const int64_t images = read.shape.n() * (last ? 1 : read.shape.c());
  for (int64_t n = 0; n < images; ++n) {
    for (int64_t d = 0; d < axes[0].written; ++d) {
      for (int64_t h = 0; h < axes[1].written; ++h) {
        GatherRow(axes, channels, d, h, from, to);
        to += axes[2].written * channels;
      }
    }
    from += read.elements() / images;
  }
}

}  // namespace

absl::StatusOr<Candidates> ResampleSteps(const StepSignature& signature) {
  return OwnLoop(signature, Resample, TableBytes(signature));
}

}  // namespace neap::cpu

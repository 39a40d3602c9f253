// Resize and AdaptiveAveragePool: weighted sums of ranges of elements, in both directions.
#include <algorithm>
#include <array>

#include "neap/layers/cpu/candidates.h"
#include "neap/layers/resize/resample_axes.h"

namespace neap::cpu {
namespace {

using namespace operands;

// One axis of a step: which elements of what it reads are summed, and their weights.
struct GatheredAxis {
  ResampleAxis<int64_t> axis;
  bool backward;
  int64_t read() const { return backward ? axis.out : axis.in; }
  int64_t written() const { return backward ? axis.in : axis.out; }
  IndexRange<int64_t> RangeOf(int64_t at) const {
    return backward ? axis.Outputs(at) : axis.Inputs(at);
  }
  float Weight(int64_t at, int64_t from) const {
    return backward ? axis.Weight(from, at) : axis.Weight(at, from);
  }
};

// Images as the step reads and writes them: {D, H, W, channels}, where channels are 1 in
// channels-first.
struct Gathered {
  std::array<GatheredAxis, kMaxSpatialAxes> axes;
  int64_t channels;
};

// Adds to `sums`, for each channel, the elements of one row that `to` is made of.
void AddRow(const GatheredAxis& axis, int64_t to, int64_t channels, float weight, const float* row,
            float* sums) {
  const IndexRange<int64_t> range = axis.RangeOf(to);
  for (int64_t w = range.first; w < range.last; ++w) {
    const float factor = weight * axis.Weight(to, w);
    const float* const pixel = row + w * channels;
#pragma GCC ivdep
    for (int64_t c = 0; c < channels; ++c) sums[c] += factor * pixel[c];
  }
}

// The row {W, channels} at (d, h) of the result, which it overwrites.
void GatherRow(const Gathered& of, int64_t d, int64_t h, const float* image, float* to) {
  const auto& [depth, height, width] = of.axes;
  std::fill_n(to, width.written() * of.channels, 0.0F);
  const IndexRange<int64_t> planes = depth.RangeOf(d), rows = height.RangeOf(h);
  for (int64_t p = planes.first; p < planes.last; ++p) {
    for (int64_t r = rows.first; r < rows.last; ++r) {
      const float weight = depth.Weight(d, p) * height.Weight(h, r);
      const float* const row = image + (p * height.read() + r) * width.read() * of.channels;
      for (int64_t w = 0; w < width.written(); ++w)
        AddRow(width, w, of.channels, weight, row, to + w * of.channels);
    }
  }
}

void Resample(const LoopArgs& args) {
  const bool backward = args.signature.phase == Phase::kBackwardData;
  const TensorSpec& read = args.signature.Spec(backward ? Dy() : X());
  const bool last = read.layout == Layout::kChannelsLast;
  Gathered of = {.axes = {}, .channels = last ? read.shape.c() : 1};
  const ResampleAxes axes = ResampleAxesOf(args.signature);
  for (size_t i = 0; i < axes.size(); ++i) of.axes[i] = {axes[i], backward};
  const float* from = args.Get<float>(backward ? Dy() : X());
  float* to = args.Get<float>(backward ? Dx() : Y());
  const int64_t images = read.shape.n() * (last ? 1 : read.shape.c());
  for (int64_t n = 0; n < images; ++n) {
    for (int64_t d = 0; d < of.axes[0].written(); ++d) {
      for (int64_t h = 0; h < of.axes[1].written(); ++h) {
        GatherRow(of, d, h, from, to);
        to += of.axes[2].written() * of.channels;
      }
    }
    from += read.elements() / images;
  }
}

}  // namespace

absl::StatusOr<Candidates> ResampleSteps(const StepSignature& signature) {
  return OwnLoop(signature, Resample);
}

}  // namespace neap::cpu

#include "neap/layers/fusion/residual_tail.h"

#include <algorithm>
#include <optional>

#include "neap/layers/cpu/candidates.h"
#include "neap/layers/cpu/converted.h"
#include "neap/layers/cpu/dropout_mask.h"
#include "neap/layers/cpu/norm/channel_rows.h"

namespace neap::cpu {
namespace {

using namespace operands;

// What a step multiplies a branch or its gradient by, and adds to it. Without a scale, and where a
// ScaleShift adds nothing, that is -0: x * 1 + -0 is x, also for -0.
struct TailNumbers {
  explicit TailNumbers(const LoopArgs& args) : tail(*args.signature.layer.As<ResidualTail>()) {
    if (args.signature.Has(Iteration()))
      mask.emplace(args, DroppedImagesOf(args.signature, tail.drop->rate));
    if (!tail.scale.has_value()) return;
    scale = tail.scale->scale;
    if (args.signature.phase == Phase::kForward) {
      shift = tail.scale->shift;
    } else if (!tail.learns_scale()) {
      shift = 0;
    }
    if (tail.learns_scale()) scales = args.Get<float>(Param(0));
  }
  float Scale(int64_t c) const { return scales != nullptr ? scales[c] : scale; }
  float OfImage(int64_t n) const { return mask.has_value() ? mask->Factor(n) : 1; }

  const ResidualTail& tail;
  std::optional<DropoutMask> mask;
  float scale = 1, shift = -0.0F;
  const float* scales = nullptr;
};

// Calls apply(offset, c, factor) for every element, with the factor of its image.
template <typename Apply>
void ForEachOfTail(const TensorSpec& spec, const TailNumbers& numbers, Apply apply) {
  const ChannelRows rows = ChannelRowsOf(spec);
  const ChannelRows image = {1, rows.channels, rows.pixels, rows.channels_last};
  for (int64_t n = 0; n < rows.images; ++n) {
    const int64_t first = n * rows.channels * rows.pixels;
    const float factor = numbers.OfImage(n);
    ForEachElement(image, [=](int64_t i, int64_t c) { apply(first + i, c, factor); });
  }
}

void TailForward(const LoopArgs& args) {
  const TensorSpec& spec = args.signature.Spec(Y());
  const TailNumbers numbers(args);
  const float* const branch = args.Get<float>(X(0));
  const float* const bypass = args.Get<float>(X(1));
  float* const y = args.Get<float>(Y());
  RoundAs(spec.dtype, [&](auto round) {
    ForEachOfTail(spec, numbers, [=, &numbers](int64_t i, int64_t c, float factor) {
      const float scaled = round(branch[i] * numbers.Scale(c) + numbers.shift);
      y[i] = round(Masked(scaled, factor)) + bypass[i];
    });
  });
}

void TailBackward(const LoopArgs& args) {
  const TensorSpec& spec = args.signature.Spec(Dy());
  const TailNumbers numbers(args);
  const float* const branch = args.Find<float>(X(0));
  const float* const dy = args.Get<float>(Dy());
  float* const dx = args.Get<float>(Dx(0));
  double* const sums = args.Workspace<double>();
  const bool sums_products = args.signature.Has(ParamGrad(0));
  if (sums_products) std::fill_n(sums, spec.shape.c(), 0.0);
  RoundAs(spec.dtype, [&](auto round) {
    ForEachOfTail(spec, numbers, [=, &numbers](int64_t i, int64_t c, float factor) {
      const float gradient = round(Masked(dy[i], factor));
      if (sums_products && factor != 0)
        sums[c] += static_cast<double>(gradient) * static_cast<double>(branch[i]);
      dx[i] = gradient * numbers.Scale(c) + numbers.shift;
    });
  });
  StoreSums(args, ParamGrad(0), sums);
}

}  // namespace

absl::StatusOr<Candidates> ResidualTailSteps(const StepSignature& signature) {
  if (signature.phase == Phase::kForward) return OwnLoop(signature, TailForward);
  const int64_t sums = signature.Has(ParamGrad(0)) ? signature.Spec(Dy()).shape.c() : 0;
  return OwnLoop(signature, TailBackward, sums * static_cast<int64_t>(sizeof(double)));
}

}  // namespace neap::cpu

#include "neap/layers/dropout.h"

#include <algorithm>

#include "neap/layers/cpu/candidates.h"
#include "neap/layers/cpu/dropout_mask.h"
#include "neap/layers/cpu/norm/channel_rows.h"

namespace neap::cpu {
namespace {

using namespace operands;

void MaskElements(const DropoutMask& mask, int64_t elements, const float* from, float* to) {
  const int64_t end = mask.first + elements;
  for (int64_t block = mask.first / 4; 4 * block < end; ++block) {
    const PhiloxBlock random = mask.Block(block);
    for (int64_t i = std::max(4 * block, mask.first); i < std::min(4 * block + 4, end); ++i) {
      const float factor = mask.FactorOf(random[static_cast<size_t>(i - 4 * block)]);
      to[i - mask.first] = Masked(from[i - mask.first], factor);
    }
  }
}

void MaskPlanes(const DropoutMask& mask, const ChannelRows& rows, const float* from, float* to) {
  for (int64_t r = 0; r < rows.images * rows.channels; ++r) {
    const float factor = mask.Factor(r);
    for (int64_t i = r * rows.pixels; i < (r + 1) * rows.pixels; ++i)
      to[i] = Masked(from[i], factor);
  }
}

// `factors` has room for the channels of an image.
void MaskPixels(const DropoutMask& mask, const ChannelRows& rows, const float* from, float* to,
                float* factors) {
  for (int64_t n = 0; n < rows.images; ++n) {
    for (int64_t c = 0; c < rows.channels; ++c) factors[c] = mask.Factor(n * rows.channels + c);
    for (int64_t r = n * rows.pixels; r < (n + 1) * rows.pixels; ++r) {
      for (int64_t c = 0; c < rows.channels; ++c)
        to[r * rows.channels + c] = Masked(from[r * rows.channels + c], factors[c]);
    }
  }
}

void ApplyMask(const LoopArgs& args) {
  const bool forward = args.signature.phase == Phase::kForward;
  const DroppedUnits dropped = DroppedUnitsOf(args.signature);
  const ChannelRows rows = ChannelRowsOf(dropped.units);
  const DropoutMask mask(args, dropped);
  const float* const from = args.Get<float>(forward ? X() : Dy());
  float* const to = args.Get<float>(forward ? Y() : Dx());
  if (rows.pixels == 1) return MaskElements(mask, dropped.units.elements(), from, to);
  if (!rows.channels_last) return MaskPlanes(mask, rows, from, to);
  MaskPixels(mask, rows, from, to, args.Workspace<float>());
}

void Copy(const LoopArgs& args) {
  const float* const x = args.Get<float>(X());
  float* const y = args.Get<float>(Y());
  if (x != y) std::copy_n(x, args.signature.Spec(X()).elements(), y);
}

}  // namespace

absl::StatusOr<Candidates> DropoutSteps(const StepSignature& signature) {
  if (signature.mode == Mode::kInference) return OwnLoop(signature, Copy);
  const TensorSpec units = DroppedUnitsOf(signature).units;
  const int64_t factors = units.layout == Layout::kChannelsLast ? units.shape.c() : 0;
  return OwnLoop(signature, ApplyMask, factors * static_cast<int64_t>(sizeof(float)));
}

}  // namespace neap::cpu

#include "neap/layers/prelu.h"

#include <algorithm>

#include "neap/layers/cpu/candidates.h"
#include "neap/layers/cpu/norm/channel_rows.h"

namespace neap::cpu {
namespace {

using namespace operands;

// x as rows of channels with a slope each: one channel if they share theirs.
ChannelRows SlopeRows(const StepSignature& signature) {
  const TensorSpec& x = signature.Spec(X());
  if (signature.Spec(Param(0)).elements() > 1) return ChannelRowsOf(x);
  return {.images = 1, .channels = 1, .pixels = x.elements(), .channels_last = false};
}

void PreluForwardLoop(const LoopArgs& args) {
  const float* const x = args.Get<float>(X());
  const float* const slopes = args.Get<float>(Param(0));
  float* const y = args.Get<float>(Y());
  ForEachElement(SlopeRows(args.signature),
                 [=](int64_t i, int64_t c) { y[i] = x[i] > 0 ? x[i] : x[i] * slopes[c]; });
}

void PreluBackwardLoop(const LoopArgs& args) {
  const ChannelRows rows = SlopeRows(args.signature);
  const float* const x = args.Get<float>(X());
  const float* const slopes = args.Get<float>(Param(0));
  const float* const dy = args.Get<float>(Dy());
  float* const dx = args.Get<float>(Dx());
  auto* const sums = args.Workspace<double>();
  std::fill_n(sums, rows.channels, 0.0);
  ForEachElement(rows, [=](int64_t i, int64_t c) {
    const bool passes = x[i] > 0;
    const float dz = dy[i];
    sums[c] += passes ? 0 : static_cast<double>(dz) * static_cast<double>(x[i]);
    dx[i] = passes ? dz : dz * slopes[c];
  });
  StoreSums(args, ParamGrad(0), sums);
}

}  // namespace

absl::StatusOr<Candidates> PreluSteps(const StepSignature& signature) {
  if (signature.phase == Phase::kForward) return OwnLoop(signature, PreluForwardLoop);
  const int64_t sums = SlopeRows(signature).channels;
  return OwnLoop(signature, PreluBackwardLoop, sums * static_cast<int64_t>(sizeof(double)));
}

}  // namespace neap::cpu

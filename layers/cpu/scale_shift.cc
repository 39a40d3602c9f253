#include "neap/layers/scale_shift.h"

#include "neap/layers/cpu/candidates.h"

namespace neap::cpu {
namespace {

using namespace operands;

void Forward(const LoopArgs& args) {
  const auto [scale, shift] = *args.signature.layer.As<ScaleShift>();
  const float* const x = args.Get<float>(X());
  float* const y = args.Get<float>(Y());
  const int64_t elements = args.Elements(Y());
#pragma GCC ivdep
  for (int64_t i = 0; i < elements; ++i) y[i] = x[i] * scale + shift;
}

void Backward(const LoopArgs& args) {
  const float scale = args.signature.layer.As<ScaleShift>()->scale;
  const float* const dy = args.Get<float>(Dy());
  float* const dx = args.Get<float>(Dx());
  const int64_t elements = args.Elements(Dx());
#pragma GCC ivdep
  for (int64_t i = 0; i < elements; ++i) dx[i] = dy[i] * scale;
}

}  // namespace

absl::StatusOr<Candidates> ScaleShiftSteps(const StepSignature& signature) {
  return OwnLoop(signature, signature.phase == Phase::kForward ? Forward : Backward);
}

}  // namespace neap::cpu

#include "neap/layers/scale_shift.h"

#include <algorithm>

#include "neap/layers/cpu/candidates.h"
#include "neap/layers/cpu/norm/channel_rows.h"

namespace neap::cpu {
namespace {

using namespace operands;

// y = scale * x + shift with the same numbers for all elements.
void ScaleAll(const float* x, float scale, float shift, int64_t elements, float* y) {
#pragma GCC ivdep
  for (int64_t i = 0; i < elements; ++i) y[i] = x[i] * scale + shift;
}

// The numbers of channels, of which some may be the same for all.
struct ChannelNumbers {
  explicit ChannelNumbers(const LoopArgs& args) : layer(*args.signature.layer.As<ScaleShift>()) {
    if (layer.learns_scale) scales = args.Get<float>(Param(0));
    if (layer.learns_shift) shifts = args.Find<float>(Param(layer.shift_param()));
  }
  float Scale(int64_t c) const { return scales != nullptr ? scales[c] : layer.scale; }
  float Shift(int64_t c) const { return shifts != nullptr ? shifts[c] : layer.shift; }
  const ScaleShift& layer;
  const float* scales = nullptr;
  const float* shifts = nullptr;
};

void Forward(const LoopArgs& args) {
  const ChannelNumbers numbers(args);
  const float* const x = args.Get<float>(X());
  float* const y = args.Get<float>(Y());
  if (!numbers.layer.learns())
    return ScaleAll(x, numbers.layer.scale, numbers.layer.shift, args.Elements(Y()), y);
  ForEachElement(ChannelRowsOf(args.signature.Spec(X())),
                 [=](int64_t i, int64_t c) { y[i] = x[i] * numbers.Scale(c) + numbers.Shift(c); });
}

void Backward(const LoopArgs& args) {
  const ChannelNumbers numbers(args);
  const ScaleShift& layer = numbers.layer;
  const float* const dy = args.Get<float>(Dy());
  float* const dx = args.Get<float>(Dx());
  if (!layer.learns()) return ScaleAll(dy, layer.scale, 0, args.Elements(Dx()), dx);
  const ChannelRows rows = ChannelRowsOf(args.signature.Spec(Dy()));
  auto* const sums = args.Workspace<double>();
  double* const products = sums + rows.channels;
  std::fill_n(sums, 2 * rows.channels, 0.0);
  const float* const x = args.Find<float>(X());
  ForEachElement(rows, [=](int64_t i, int64_t c) {
    const float gradient = dy[i];
    sums[c] += static_cast<double>(gradient);
    if (x != nullptr) products[c] += static_cast<double>(gradient) * static_cast<double>(x[i]);
    dx[i] = gradient * numbers.Scale(c);
  });
  if (layer.learns_scale) StoreSums(args, ParamGrad(0), products);
  if (layer.learns_shift) StoreSums(args, ParamGrad(layer.shift_param()), sums);
}

}  // namespace

absl::StatusOr<Candidates> ScaleShiftSteps(const StepSignature& signature) {
  if (signature.phase == Phase::kForward) return OwnLoop(signature, Forward);
  const bool learns = signature.layer.As<ScaleShift>()->learns();
  const int64_t sums = learns ? 2 * signature.Spec(Dy()).shape.c() : 0;
  return OwnLoop(signature, Backward, sums * static_cast<int64_t>(sizeof(double)));
}

}  // namespace neap::cpu

#include "neap/layers/bias_relu.h"

#include <algorithm>

#include "neap/layers/cpu/candidates.h"
#include "neap/layers/cpu/converted.h"

namespace neap::cpu {
namespace {

using namespace operands;

// Calls apply(offset, c) for every element, channel by channel.
template <typename Apply>
void ForEachElement(const TensorSpec& spec, const Apply& apply) {
  const int64_t channels = spec.shape.c(), pixels = spec.shape.h() * spec.shape.w();
  const bool last = spec.layout == Layout::kNhwc;
  for (int64_t n = 0; n < spec.shape.n(); ++n) {
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t p = 0; p < pixels; ++p)
        apply(n * channels * pixels + (last ? p * channels + c : c * pixels + p), c);
    }
  }
}

void Forward(const LoopArgs& args) {
  const TensorSpec& spec = args.signature.Spec(Y());
  const float* const x = args.Get<float>(X());
  const float* const bias = args.Get<float>(Param(0));
  float* const y = args.Get<float>(Y());
  RoundAs(spec.dtype, [&](auto round) {
    ForEachElement(spec, [=](int64_t i, int64_t c) {
      const float sum = round(x[i] + bias[c]);
      y[i] = sum <= 0 ? 0 : sum;  // NaN passes
    });
  });
}

void Backward(const LoopArgs& args) {
  const TensorSpec& spec = args.signature.Spec(Dy());
  const float* const y = args.Get<float>(Y());
  const float* const dy = args.Get<float>(Dy());
  float* const dx = args.Get<float>(Dx());
  double* const sums = args.Workspace<double>();
  std::fill_n(sums, spec.shape.c(), 0.0);
  ForEachElement(spec, [=](int64_t i, int64_t c) {
    dx[i] = y[i] <= 0 ? 0 : dy[i];
    sums[c] += static_cast<double>(dx[i]);
  });
  float* const dbias = args.Get<float>(ParamGrad(0));
  for (int64_t c = 0; c < spec.shape.c(); ++c) dbias[c] = static_cast<float>(sums[c]);
}

}  // namespace

absl::StatusOr<Candidates> BiasReluForward(const StepSignature& signature) {
  return OwnLoop(signature, Forward);
}

absl::StatusOr<Candidates> BiasReluBackward(const StepSignature& signature) {
  const int64_t channels = signature.Spec(Dy()).shape.c();
  return OwnLoop(signature, Backward, channels * static_cast<int64_t>(sizeof(double)));
}

}  // namespace neap::cpu

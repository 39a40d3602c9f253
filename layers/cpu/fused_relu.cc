#include "neap/layers/fused_relu.h"

#include <algorithm>

#include "neap/layers/cpu/candidates.h"
#include "neap/layers/cpu/channel_rows.h"
#include "neap/layers/cpu/converted.h"
#include "neap/layers/cpu/max_pool.h"

namespace neap::cpu {
namespace {

using namespace operands;

void Forward(const LoopArgs& args) {
  const FusedRelu& layer = *args.signature.layer.As<FusedRelu>();
  const TensorSpec& spec = args.signature.Spec(X());
  const float* const x = args.Get<float>(X());
  const float* const bias = args.Find<float>(Param(0));
  float* const y = args.Get<float>(Y());
  RoundAs(spec.dtype, [&](auto round) {
    const auto value = [=](int64_t i, int64_t c) {
      return ReluOf(bias == nullptr ? x[i] : round(x[i] + bias[c]));
    };
    if (layer.pool.has_value()) {
      PooledRelu(*layer.pool, spec, args.signature.Spec(Y()), value, y,
                 args.Find<uint8_t>(Saved(0)));
    } else {
      ForEachElement(ChannelRowsOf(spec), [=](int64_t i, int64_t c) { y[i] = value(i, c); });
    }
  });
}

// Writes the gradient before the ReLU.
void ReluBackward(const LoopArgs& args, float* dx) {
  const FusedRelu& layer = *args.signature.layer.As<FusedRelu>();
  const TensorSpec& spec = args.signature.Spec(Dy());
  const float* const dy = args.Get<float>(Dy());
  if (layer.pool.has_value()) {
    ScatterToMaxima(*layer.pool, args.signature.Spec(Dx()), spec, dy, args.Get<uint8_t>(Saved(0)),
                    /*relu=*/true, dx);
    return;
  }
  const float* const y = args.Get<float>(Y());
  for (int64_t i = 0; i < spec.elements(); ++i) dx[i] = y[i] <= 0 ? 0 : dy[i];
}

void Backward(const LoopArgs& args) {
  const TensorSpec& spec = args.signature.Spec(Dx());
  float* const dx = args.Get<float>(Dx());
  ReluBackward(args, dx);
  float* const dbias = args.Find<float>(ParamGrad(0));
  if (dbias == nullptr) return;
  double* const sums = args.Workspace<double>();
  std::fill_n(sums, spec.shape.c(), 0.0);
  RoundAs(spec.dtype, [&](auto round) {
    ForEachElement(ChannelRowsOf(spec),
                   [=](int64_t i, int64_t c) { sums[c] += static_cast<double>(round(dx[i])); });
  });
  for (int64_t c = 0; c < spec.shape.c(); ++c) dbias[c] = static_cast<float>(sums[c]);
}

}  // namespace

absl::StatusOr<Candidates> FusedReluForward(const StepSignature& signature) {
  return OwnLoop(signature, Forward);
}

absl::StatusOr<Candidates> FusedReluBackward(const StepSignature& signature) {
  const int64_t channels =
      signature.Has(ParamGrad(0)) ? signature.Spec(ParamGrad(0)).elements() : 0;
  return OwnLoop(signature, Backward, channels * static_cast<int64_t>(sizeof(double)));
}

}  // namespace neap::cpu

#include "neap/layers/fusion/fused_relu.h"

#include "neap/layers/cpu/candidates.h"
#include "neap/layers/cpu/converted.h"
#include "neap/layers/cpu/norm/channel_rows.h"
#include "neap/layers/cpu/pooling/max_pool.h"

namespace neap::cpu {
namespace {

using namespace operands;

void Forward(const LoopArgs& args) {
  const FusedRelu& layer = *args.signature.layer.As<FusedRelu>();
  const TensorSpec& spec = args.signature.Spec(X());
  const float* const x = args.Get<float>(X());
  const float* const bias = args.Find<float>(Param(0));
  RoundAs(spec.dtype, [&](auto round) {
    const auto value = [=](int64_t i, int64_t c) {
      return ReluOf(bias == nullptr ? x[i] : round(x[i] + bias[c]));
    };
    PooledRelu(layer.pool, spec, args.signature.Spec(Y()), value, args.Get<float>(Y()),
               args.Find<uint8_t>(Saved(0)));
  });
}

void Backward(const LoopArgs& args) {
  const TensorSpec& spec = args.signature.Spec(Dx());
  float* const dx = args.Get<float>(Dx());
  ScatterToMaxima(args.signature.layer.As<FusedRelu>()->pool, spec, args.signature.Spec(Dy()),
                  args.Get<float>(Dy()), args.Get<uint8_t>(Saved(0)), /*relu=*/true, dx);
  float* const dbias = args.Find<float>(ParamGrad(0));
  if (dbias == nullptr) return;
  RoundAs(spec.dtype, [&](auto round) {
    SumChannels(
        ChannelRowsOf(spec), [=](int64_t i) { return round(dx[i]); }, args.Workspace<double>(),
        dbias);
  });
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

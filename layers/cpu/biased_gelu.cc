#include "neap/layers/fusion/biased_gelu.h"

#include <algorithm>

#include "neap/layers/cpu/activation_functions.h"
#include "neap/layers/cpu/candidates.h"
#include "neap/layers/cpu/converted.h"
#include "neap/layers/cpu/norm/channel_rows.h"

namespace neap::cpu {
namespace {

using namespace operands;

GeluFunction FunctionOfBiased(const StepSignature& signature, DType dtype) {
  return {signature.layer.As<BiasedGelu>()->gelu, dtype};
}

void BiasedGeluForward(const LoopArgs& args) {
  const TensorSpec& spec = args.signature.Spec(X());
  const GeluFunction gelu = FunctionOfBiased(args.signature, spec.dtype);
  const float* const x = args.Get<float>(X());
  const float* const bias = args.Get<float>(Param(0));
  float* const y = args.Get<float>(Y());
  RoundAs(spec.dtype, [&](auto round) {
    ForEachElement(ChannelRowsOf(spec),
                   [=](int64_t i, int64_t c) { y[i] = gelu.Value(round(x[i] + bias[c])); });
  });
}

void BiasedGeluBackward(const LoopArgs& args) {
  const TensorSpec& spec = args.signature.Spec(X());
  const GeluFunction gelu = FunctionOfBiased(args.signature, spec.dtype);
  const float* const x = args.Get<float>(X());
  const float* const dy = args.Get<float>(Dy());
  const float* const bias = args.Get<float>(Param(0));
  float* const dx = args.Get<float>(Dx());
  const ChannelRows rows = ChannelRowsOf(spec);
  double* const sums = args.Workspace<double>();
  std::fill_n(sums, rows.channels, 0.0);
  RoundAs(spec.dtype, [&](auto round) {
    ForEachElement(rows, [=](int64_t i, int64_t c) {
      dx[i] = round(gelu.Gradient(round(x[i] + bias[c]), dy[i]));
      sums[c] += static_cast<double>(dx[i]);
    });
  });
  StoreSums(args, ParamGrad(0), sums);
}

}  // namespace

absl::StatusOr<Candidates> BiasedGeluSteps(const StepSignature& signature) {
  if (signature.phase == Phase::kForward) return OwnLoop(signature, BiasedGeluForward);
  return OwnLoop(signature, BiasedGeluBackward,
                 signature.Spec(X()).shape.c() * static_cast<int64_t>(sizeof(double)));
}

}  // namespace neap::cpu

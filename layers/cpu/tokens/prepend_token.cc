#include "neap/layers/tokens/prepend_token.h"

#include <algorithm>

#include "neap/layers/cpu/candidates.h"
#include "neap/layers/cpu/tokens/token_vectors.h"

namespace neap::cpu {
namespace {

using namespace operands;

void PrependForward(const LoopArgs& args) {
  const TokenVectors in(args.signature.Spec(X())), out(args.signature.Spec(Y()));
  const float* const x = args.Get<float>(X());
  const float* const weight = args.Get<float>(Param(0));
  float* const y = args.Get<float>(Y());
  for (int64_t i = 0; i < out.count; ++i) {
    const int64_t example = i / out.positions, position = i % out.positions;
    const float* const from =
        position == 0 ? weight : x + in.First(example * in.positions + position - 1);
    const int64_t apart = position == 0 ? 1 : in.apart;
    for (int64_t c = 0; c < out.channels; ++c) y[out.First(i) + c * out.apart] = from[c * apart];
  }
}

void PrependBackward(const LoopArgs& args) {
  const TokenVectors in(args.signature.Spec(Dx())), out(args.signature.Spec(Dy()));
  const float* const dy = args.Get<float>(Dy());
  float* const dx = args.Get<float>(Dx());
  float* const dweight = args.Get<float>(ParamGrad(0));
  if (!args.signature.Accumulates(ParamGrad(0))) std::fill_n(dweight, in.channels, 0.0F);
  for (int64_t i = 0; i < out.count; ++i) {
    const int64_t example = i / out.positions, position = i % out.positions;
    const float* const from = dy + out.First(i);
    for (int64_t c = 0; c < out.channels; ++c) {
      const float gradient = from[c * out.apart];
      if (position == 0) {
        dweight[c] += gradient;
      } else {
        dx[in.First(example * in.positions + position - 1) + c * in.apart] = gradient;
      }
    }
  }
}

}  // namespace

absl::StatusOr<Candidates> PrependTokenSteps(const StepSignature& signature) {
  return OwnLoop(signature, signature.phase == Phase::kForward ? PrependForward : PrependBackward);
}

}  // namespace neap::cpu

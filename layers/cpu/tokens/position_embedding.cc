#include "neap/layers/tokens/position_embedding.h"

#include <algorithm>

#include "neap/layers/cpu/candidates.h"

namespace neap::cpu {
namespace {

using namespace operands;

void PositionForward(const LoopArgs& args) {
  const float* const x = args.Get<float>(X());
  const float* const weight = args.Get<float>(Param(0));
  float* const y = args.Get<float>(Y());
  const int64_t elements = args.Elements(Y()), of_example = args.Elements(Param(0));
  for (int64_t first = 0; first < elements; first += of_example) {
#pragma GCC ivdep
    for (int64_t i = 0; i < of_example; ++i) y[first + i] = x[first + i] + weight[i];
  }
}

void PositionBackward(const LoopArgs& args) {
  const float* const dy = args.Get<float>(Dy());
  float* const dx = args.Get<float>(Dx());
  float* const dweight = args.Get<float>(ParamGrad(0));
  const int64_t elements = args.Elements(Dy()), of_example = args.Elements(ParamGrad(0));
  if (!args.signature.Accumulates(ParamGrad(0))) std::fill_n(dweight, of_example, 0.0F);
  for (int64_t first = 0; first < elements; first += of_example) {
#pragma GCC ivdep
    for (int64_t i = 0; i < of_example; ++i) dweight[i] += dy[first + i];
  }
  if (dx != dy) std::copy_n(dy, elements, dx);
}

}  // namespace

absl::StatusOr<Candidates> PositionEmbeddingSteps(const StepSignature& signature) {
  const bool forward = signature.phase == Phase::kForward;
  return OwnLoop(signature, forward ? PositionForward : PositionBackward);
}

}  // namespace neap::cpu

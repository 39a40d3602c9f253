#include "neap/layers/dropout.h"

#include <algorithm>

#include "neap/core/base/philox.h"
#include "neap/layers/cpu/candidates.h"

namespace neap::cpu {
namespace {

using namespace operands;

void ApplyMask(const LoopArgs& args, Operand from_operand, Operand to_operand) {
  const float probability = args.signature.layer.As<Dropout>()->probability;
  const IterationScalars iteration = *args.Get<IterationScalars>(Iteration());
  const float* const from = args.Get<float>(from_operand);
  float* const to = args.Get<float>(to_operand);
  const TensorSpec& spec = args.signature.Spec(from_operand);
  const int64_t elements = spec.elements();
  const float scale = 1.0F / (1.0F - probability);
  const int64_t first = args.signature.part.CountBefore(elements, spec.shape.n());
  for (int64_t block = first / 4; 4 * block < first + elements; ++block) {
    const PhiloxBlock random = DropoutBlock(iteration.seed, args.signature.layer_seed,
                                            iteration.step, static_cast<uint64_t>(block));
    const int64_t end = std::min(4 * block + 4, first + elements);
    for (int64_t i = std::max(4 * block, first); i < end; ++i) {
      const bool keep = ToUnitFloat(random[static_cast<size_t>(i - 4 * block)]) >= probability;
      to[i - first] = keep ? from[i - first] * scale : 0.0F;
    }
  }
}

void Copy(const LoopArgs& args) {
  const float* const x = args.Get<float>(X());
  float* const y = args.Get<float>(Y());
  if (x != y) std::copy_n(x, args.signature.Spec(X()).elements(), y);
}

void Forward(const LoopArgs& args) { ApplyMask(args, X(), Y()); }
void Backward(const LoopArgs& args) { ApplyMask(args, Dy(), Dx()); }

}  // namespace

absl::StatusOr<Candidates> DropoutForward(const StepSignature& signature) {
  return OwnLoop(signature, signature.mode == Mode::kInference ? Copy : Forward);
}

absl::StatusOr<Candidates> DropoutBackward(const StepSignature& signature) {
  return OwnLoop(signature, Backward);
}

}  // namespace neap::cpu

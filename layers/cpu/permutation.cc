// ChannelShuffle, PixelShuffle and PixelUnshuffle.
#include "neap/layers/steps/permutation.h"

#include <algorithm>

#include "neap/layers/cpu/candidates.h"
#include "neap/layers/resize/permutations.h"

namespace neap::cpu {
namespace {

using namespace operands;

// Writes the axes from number `axis` on, and returns the end of what is written.
float* CopyAxes(const Permutation& permutation, int axis, const float* from, float* to) {
  const auto [extent, stride] = permutation.axes[static_cast<size_t>(axis)];
  if (axis + 1 < permutation.count) {
    for (int64_t i = 0; i < extent; ++i)
      to = CopyAxes(permutation, axis + 1, from + i * stride, to);
    return to;
  }
  if (stride == 1) return std::copy_n(from, extent, to);
  for (int64_t i = 0; i < extent; ++i) *to++ = from[i * stride];
  return to;
}

void Permute(const LoopArgs& args) {
  const bool forward = args.signature.phase == Phase::kForward;
  CopyAxes(PermutationOf(args.signature), 0, args.Get<float>(forward ? X() : Dy()),
           args.Get<float>(forward ? Y() : Dx()));
}

}  // namespace

absl::StatusOr<Candidates> PermutationSteps(const StepSignature& signature) {
  return OwnLoop(signature, Permute);
}

}  // namespace neap::cpu

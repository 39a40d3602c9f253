// ChannelShuffle, PixelShuffle, PixelUnshuffle, and the layers of layers/shape.
#include "neap/layers/steps/permutation.h"

#include <algorithm>
#include <utility>

#include "neap/layers/cpu/candidates.h"
#include "neap/layers/resize/permutations.h"

namespace neap::cpu {
namespace {

using namespace operands;

// Writes the axes from number `axis` on, and returns the end of what is written.
float* CopyAxes(const Permutation& permutation, int axis, const float* from, float* to) {
  const auto [extent, stride, first] = permutation.axes[static_cast<size_t>(axis)];
  for (const auto& [begin, end] : {std::pair(first, extent), std::pair(int64_t{0}, first)}) {
    if (axis + 1 < permutation.count) {
      for (int64_t i = begin; i < end; ++i)
        to = CopyAxes(permutation, axis + 1, from + i * stride, to);
    } else if (stride == 1) {
      to = std::copy_n(from + begin, end - begin, to);
    } else {
      for (int64_t i = begin; i < end; ++i) *to++ = from[i * stride];
    }
  }
  return to;
}

// Adds the axes from number `axis` on of a repeated tensor to the elements that they are copies of,
// and returns the end of what is read.
const float* AddAxes(const Permutation& permutation, int axis, const float* from, float* to) {
  const Permutation::Axis& along = permutation.axes[static_cast<size_t>(axis)];
  for (int64_t i = 0; i < along.extent; ++i) {
    float* const copied = to + i * along.stride;
    if (axis + 1 < permutation.count) {
      from = AddAxes(permutation, axis + 1, from, copied);
    } else {
      *copied += *from++;
    }
  }
  return from;
}

void SumRepeats(const LoopArgs& args) {
  float* const dx = args.Get<float>(Dx());
  std::fill_n(dx, args.signature.Spec(Dx()).elements(), 0.0F);
  AddAxes(PermutationOf(args.signature), 0, args.Get<float>(Dy()), dx);
}

void Permute(const LoopArgs& args) {
  const bool forward = args.signature.phase == Phase::kForward;
  const float* const from = args.Get<float>(forward ? X() : Dy());
  float* const to = args.Get<float>(forward ? Y() : Dx());
  if (from != to) CopyAxes(PermutationOf(args.signature), 0, from, to);  // in place, a view
}

}  // namespace

absl::StatusOr<Candidates> PermutationSteps(const StepSignature& signature) {
  return OwnLoop(signature, Permute);
}

absl::StatusOr<Candidates> TileSteps(const StepSignature& signature) {
  return OwnLoop(signature, signature.phase == Phase::kForward ? Permute : SumRepeats);
}

}  // namespace neap::cpu

#include "neap/layers/channel_split.h"

#include <iterator>

#include "neap/layers/cpu/candidates.h"
#include "neap/layers/cpu/concatenation.h"

namespace neap::cpu {
namespace {

using namespace operands;

void SplitForward(const LoopArgs& args) {
  const std::vector<int64_t>& channels = args.signature.layer.As<ChannelSplit>()->channels;
  const Concatenation whole = ConcatenationOf(args.signature.Spec(X()));
  const float* x = args.Get<float>(X());
  for (int i = 0; i < std::ssize(channels); ++i)
    x = CopyFrom(whole, x, channels[static_cast<size_t>(i)], false, args.Get<float>(Y(i)));
}

void SplitBackward(const LoopArgs& args) {
  const std::vector<int64_t>& channels = args.signature.layer.As<ChannelSplit>()->channels;
  const Concatenation whole = ConcatenationOf(args.signature.Spec(Dx()));
  float* dx = args.Get<float>(Dx());
  for (int i = 0; i < std::ssize(channels); ++i) {
    const int64_t count = channels[static_cast<size_t>(i)];
    const bool is_known = args.signature.Has(Dy(i));
    dx = is_known ? CopyInto(whole, args.Get<float>(Dy(i)), count, dx) : SetZero(whole, count, dx);
  }
}

}  // namespace

absl::StatusOr<Candidates> ChannelSplitSteps(const StepSignature& signature) {
  return OwnLoop(signature, signature.phase == Phase::kForward ? SplitForward : SplitBackward);
}

}  // namespace neap::cpu

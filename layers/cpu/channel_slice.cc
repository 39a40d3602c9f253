#include "neap/layers/channel_slice.h"

#include <algorithm>

#include "neap/layers/cpu/candidates.h"

namespace neap::cpu {
namespace {

using namespace operands;

// Calls f(offset in all channels, offset in the slice, elements) for each run of memory of the
// slice.
template <typename F>
void ForEachRun(const LoopArgs& args, const TensorSpec& whole, F f) {
  const auto [first, count] = *args.signature.layer.As<ChannelSlice>();
  const bool last = whole.layout == Layout::kChannelsLast;
  const int64_t pixels = whole.shape.positions();
  const int64_t rows = whole.shape.n() * (last ? pixels : 1);
  const int64_t channel = last ? 1 : pixels;  // elements
  for (int64_t row = 0; row < rows; ++row)
    f((row * whole.shape.c() + first) * channel, row * count * channel, count * channel);
}

void Forward(const LoopArgs& args) {
  const float* const x = args.Get<float>(X());
  float* const y = args.Get<float>(Y());
  ForEachRun(args, args.signature.Spec(X()), [&](int64_t in_whole, int64_t in_slice, int64_t run) {
    std::copy_n(x + in_whole, run, y + in_slice);
  });
}

void Backward(const LoopArgs& args) {
  const float* const dy = args.Get<float>(Dy());
  float* const dx = args.Get<float>(Dx());
  std::fill_n(dx, args.Elements(Dx()), 0.0F);
  ForEachRun(args, args.signature.Spec(Dx()), [&](int64_t in_whole, int64_t in_slice, int64_t run) {
    std::copy_n(dy + in_slice, run, dx + in_whole);
  });
}

}  // namespace

absl::StatusOr<Candidates> ChannelSliceForward(const StepSignature& signature) {
  return OwnLoop(signature, Forward);
}
absl::StatusOr<Candidates> ChannelSliceBackward(const StepSignature& signature) {
  return OwnLoop(signature, Backward);
}

}  // namespace neap::cpu
